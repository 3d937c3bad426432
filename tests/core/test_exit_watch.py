"""A signal ends a program soon, with the right exit code, whatever its main thread is doing."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
SIGNALS = [signal.SIGHUP, signal.SIGINT, signal.SIGTERM]
REASONS = {"SIGINT": "interrupted", "SIGTERM": "terminated", "SIGHUP": "the terminal was closed"}

HEAD = """
import hashlib, os, signal, subprocess, sys, time
from briskrl.core import exit_watch
from briskrl.core.exit_watch import ExitWatch, StoppedError, nothing_to_lose
from briskrl.core.scratch_folder import ScratchFolder
exit_watch.GRACE_S = 0.3

def compute():
    "A call that takes long and runs no Python code meanwhile, as compiling does."
    hashlib.pbkdf2_hmac("sha256", b"", b"", 10**9)

def ready(*words):
    print(*words, flush=True)

"""
STUCK = """
with ExitWatch():
    ready()
    compute()
"""


def start(code: str, **options) -> subprocess.Popen[str]:
    program = subprocess.Popen(
        [sys.executable, "-c", HEAD + code],
        env=os.environ | {"PYTHONPATH": str(ROOT)},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        **options,
    )
    program.first_line = program.stdout.readline()
    return program


def is_alive(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().split()[2] != "Z"
    except FileNotFoundError:
        return False


@pytest.mark.parametrize("number", SIGNALS, ids=lambda number: number.name)
def test_a_signal_ends_a_program_that_runs_no_python_code(number):
    program = start(STUCK)
    time.sleep(0.3)
    program.send_signal(number)
    output, errors = program.communicate(timeout=20)
    assert program.returncode == 128 + number
    assert (output, errors) == ("", f"brisk: {REASONS[number.name]}\n")


@pytest.mark.parametrize("number", SIGNALS, ids=lambda number: number.name)
def test_a_program_that_runs_python_code_leaves_in_order(number):
    program = start("""
try:
    with ExitWatch():
        try:
            ready()
            time.sleep(60)
        finally:
            time.sleep(1)  # longer than the grace
            ready("in order")
except StoppedError as stopped:
    raise SystemExit(stopped.exit_code)
""")
    program.send_signal(number)
    output, errors = program.communicate(timeout=20)
    assert (program.returncode, output, errors) == (128 + number, "in order\n", "")


def test_where_nothing_is_lost_the_program_ends_although_a_handler_ran(tmp_path):
    program = start("""
with ExitWatch():
    folder = ScratchFolder("brisk-test-")
    child = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(60)"])
    signal.signal(signal.SIGTERM, lambda *_: None)
    with nothing_to_lose("Start again."):
        ready(folder.name, child.pid)
        while True:
            time.sleep(0.01)
""")
    folder, child = program.first_line.split()
    assert Path(folder).is_dir()
    assert is_alive(int(child))
    program.send_signal(signal.SIGTERM)
    _, errors = program.communicate(timeout=20)
    assert program.returncode == 143
    assert errors == "brisk: terminated. Start again.\n"
    assert not Path(folder).exists()
    deadline = time.monotonic() + 10
    while is_alive(int(child)):
        assert time.monotonic() < deadline
        time.sleep(0.01)


def test_a_program_with_a_handler_of_its_own_is_left_alone():
    program = start("""
with ExitWatch():
    signal.signal(signal.SIGINT, lambda *_: None)
    with nothing_to_lose():
        pass
    ready()
    compute_until = time.monotonic() + 1.0
    while time.monotonic() < compute_until:
        hashlib.pbkdf2_hmac("sha256", b"", b"", 1000)
    ready("saved")
""")
    program.send_signal(signal.SIGINT)
    output, errors = program.communicate(timeout=20)
    assert (program.returncode, output, errors) == (0, "saved\n", "")


def test_a_second_interrupt_ends_the_program_in_any_case():
    program = start("""
with ExitWatch():
    signal.signal(signal.SIGINT, lambda *_: None)
    ready()
    compute()
""")
    program.send_signal(signal.SIGINT)
    time.sleep(0.1)
    program.send_signal(signal.SIGINT)
    program.communicate(timeout=20)
    assert program.returncode == 130


def test_ignored_signals_stay_ignored():
    def ignore() -> None:
        signal.signal(signal.SIGHUP, signal.SIG_IGN)

    program = start("""
with ExitWatch():
    ready()
    time.sleep(1)
    ready("done")
""", preexec_fn=ignore)  # fmt: skip
    program.send_signal(signal.SIGHUP)
    output, errors = program.communicate(timeout=20)
    assert (program.returncode, output, errors) == (0, "done\n", "")


def test_a_signal_during_an_import_leaves_no_traceback(tmp_path):
    (tmp_path / "slow_module.py").write_text("""
print(flush=True)
import time
while True:
    try:
        time.sleep(0.01)
    except BaseException:  # as modules in C do
        pass
""")
    program = start(f"""
sys.path.append({str(tmp_path)!r})
with ExitWatch():
    import slow_module
""")
    program.send_signal(signal.SIGINT)
    output, errors = program.communicate(timeout=20)
    assert (program.returncode, output, errors) == (130, "", "brisk: interrupted\n")


@pytest.mark.parametrize("file", ["llvmlite/binding/executionengine.py", "numba/core/codegen.py"])
def test_a_signal_in_a_callback_of_a_compiler_leaves_no_traceback(file):
    program = start(f"""
import ctypes
exec(compile('''
def notify(data):
    ready()
    time.sleep(60)
''', "/python/site-packages/{file}", "exec"))
with ExitWatch():
    ctypes.CFUNCTYPE(None, ctypes.c_int)(notify)(1)
    ready("compiled")
""")
    program.send_signal(signal.SIGTERM)
    output, errors = program.communicate(timeout=20)
    assert (program.returncode, output, errors) == (143, "", "brisk: terminated\n")


def test_a_signal_to_a_forked_process_is_not_one_to_the_program():
    program = start("""
with ExitWatch():
    child = os.fork()
    if not child:
        time.sleep(60)
    time.sleep(0.3)
    with nothing_to_lose():
        os.kill(child, signal.SIGTERM)
        os.waitpid(child, 0)
        time.sleep(1)
    ready("alone")
""")
    _, errors = program.communicate(timeout=20)
    assert program.returncode == 0
    assert program.first_line == "alone\n"
    assert "terminated" in errors


def test_signals_are_ignored_once_the_work_is_done():
    program = start("""
with ExitWatch():
    pass
ready()
time.sleep(0.6)
""")
    for number in SIGNALS:
        program.send_signal(number)
    _, errors = program.communicate(timeout=20)
    assert (program.returncode, errors) == (0, "")
