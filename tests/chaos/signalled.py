"""Start `brisk`, send it signals at chosen moments, and check what is left."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
import time
from dataclasses import dataclass
from pathlib import Path
from uuid import uuid4

ROOT = Path(__file__).resolve().parents[2]
SIGNALS = (signal.SIGHUP, signal.SIGINT, signal.SIGTERM)
DEADLINE_S = 900.0
START = """
import sys
print("ready", flush=True)
from briskrl.cli.main import main
sys.exit(main())
"""


@dataclass(frozen=True)
class Ended:
    """How a process ended."""

    code: int
    output: str
    errors: str
    reaction_s: float
    """Seconds from the first signal to the end; 0 without a signal."""


def run_brisk(
    words: list[str],
    *,
    folder: Path,
    marker: str = "",
    delay_s: float = 0.0,
    signals: tuple[int, ...] = (),
    apart_s: float = 0.02,
    **variables: str,
) -> Ended:
    """Run `brisk` in a folder; the signals are sent some time after a line with the marker.

    Fails if the process does not end, prints a traceback or leaves a process behind.
    """
    tag = uuid4().hex
    process = subprocess.Popen(
        [sys.executable, "-u", "-c", START, *words],
        cwd=folder,
        env=os.environ | variables | {"PYTHONPATH": str(ROOT), "BRISK_TEST_TAG": tag},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    errors: list[str] = []
    reader = threading.Thread(target=lambda: errors.append(process.stderr.read()))
    reader.start()
    timer = threading.Timer(DEADLINE_S, process.kill)
    timer.start()
    output, sent_at = "", 0.0
    for line in process.stdout:
        output += line
        if signals and not sent_at and marker in line:
            time.sleep(delay_s)
            sent_at = time.monotonic()
            for number in signals:
                process.send_signal(number)
                time.sleep(apart_s)
    code = process.wait()
    reaction_s = time.monotonic() - sent_at if sent_at else 0.0
    reader.join()
    timer.cancel()
    ended = Ended(code, output, errors[0], reaction_s)
    assert "Traceback" not in ended.errors, ended
    assert "Exception ignored" not in ended.errors, ended
    assert_nothing_is_left(tag)
    return ended


def assert_nothing_is_left(tag: str) -> None:
    """Wait until no process of a tagged one is left."""
    deadline = time.monotonic() + 10.0
    while (left := processes_of(tag)) and time.monotonic() < deadline:
        time.sleep(0.05)
    assert not left


def processes_of(tag: str) -> list[str]:
    """Processes that were started by a tagged one, directly or not."""
    found = []
    for process in Path("/proc").iterdir():
        if process.name.isdigit() and process.name != str(os.getpid()):
            try:
                if f"BRISK_TEST_TAG={tag}".encode() in (process / "environ").read_bytes():
                    found.append(process.name)
            except OSError:
                continue
    return found
