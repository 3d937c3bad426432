from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
from pathlib import Path

import pytest

from briskrl.training.hooks import StopRequest

REPO = Path(__file__).resolve().parents[2]
LOOP = """
import sys, time
from briskrl.training.hooks import StopRequest
with StopRequest() as stop:
    print("ready", flush=True)
    while stop.requested is None:
        time.sleep(0.005)
    print(stop.requested, flush=True)
    if sys.argv[1] == "linger":
        time.sleep(60)
print("left in order")
"""


def start_loop(mode: str, **options: object) -> subprocess.Popen[str]:
    loop = subprocess.Popen(  # type: ignore[call-overload]
        [sys.executable, "-c", LOOP, mode],
        cwd=REPO,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        **options,
    )
    assert loop.stdout.readline() == "ready\n"
    return loop


@pytest.mark.parametrize("number", [signal.SIGHUP, signal.SIGINT, signal.SIGTERM])
def test_a_signal_stops_the_loop_after_the_iteration(number):
    loop = start_loop("leave")
    loop.send_signal(number)
    output, _ = loop.communicate(timeout=20)
    assert output == f"{number.name.lower()}\nleft in order\n"
    assert loop.returncode == 0


def test_a_second_interrupt_stops_at_once():
    loop = start_loop("linger")
    loop.send_signal(signal.SIGINT)
    assert loop.stdout.readline() == "sigint\n"
    loop.send_signal(signal.SIGINT)
    output, errors = loop.communicate(timeout=20)
    assert output == ""
    assert "KeyboardInterrupt" in errors
    assert loop.returncode == -signal.SIGINT


def test_a_background_job_with_ignored_sigint_still_stops():
    def ignore() -> None:
        signal.signal(signal.SIGINT, signal.SIG_IGN)

    loop = start_loop("leave", preexec_fn=ignore)
    loop.send_signal(signal.SIGINT)
    output, _ = loop.communicate(timeout=20)
    assert output == "sigint\nleft in order\n"


def test_a_hangup_that_is_ignored_as_by_nohup_stays_ignored():
    def ignore() -> None:
        signal.signal(signal.SIGHUP, signal.SIG_IGN)

    loop = start_loop("leave", preexec_fn=ignore)
    loop.send_signal(signal.SIGHUP)
    loop.send_signal(signal.SIGTERM)
    output, _ = loop.communicate(timeout=20)
    assert output == "sigterm\nleft in order\n"


def test_the_first_signal_counts_and_termination_never_interrupts():
    with StopRequest() as stop:
        assert stop.requested is None
        for number in (signal.SIGTERM, signal.SIGTERM, signal.SIGINT):
            os.kill(os.getpid(), number)
        assert stop.requested == "sigterm"
        with pytest.raises(KeyboardInterrupt):
            os.kill(os.getpid(), signal.SIGINT)


def test_handlers_are_restored_also_after_an_error():
    before = [signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)]

    def fail() -> None:
        assert signal.getsignal(signal.SIGTERM) != before[1]
        raise RuntimeError

    with pytest.raises(RuntimeError), StopRequest():
        fail()
    assert [signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)] == before


def test_outside_the_main_thread_nothing_is_installed():
    before = signal.getsignal(signal.SIGINT)
    seen = []

    def work() -> None:
        with StopRequest() as stop:
            seen.append((stop.requested, signal.getsignal(signal.SIGINT)))

    thread = threading.Thread(target=work)
    thread.start()
    thread.join()
    assert seen == [(None, before)]
