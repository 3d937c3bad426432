"""The soak tool finds what grows and accepts what does not."""

from __future__ import annotations

import sys

import pytest

from tests.chaos.soak import Verdict, judge, watch

FLAT = """
import time
memory = bytearray(2**24)
while True:
    time.sleep(0.05)
"""
LEAK = """
import threading, time
kept = []
while True:
    {leak}
    time.sleep(0.05)
"""
LEAKS = {
    "memory": "kept.append(bytearray(2**18))",
    "files": "kept.append(open('/dev/null'))",
    "threads": "threading.Thread(target=time.sleep, args=(100,), daemon=True).start()",
    "shared_kb": "import mmap; kept.append(mmap.mmap(-1, 2**16)); kept[-1].write(bytes(2**16))",
}


def verdict_on(program: str) -> Verdict:
    samples, exit_code = watch([sys.executable, "-c", program], seconds=2.5, every_s=0.1)
    # The program does not handle SIGTERM, as a training run does.
    assert exit_code == -15
    return judge("dummy", samples, 0)


def test_a_process_that_does_not_grow_passes() -> None:
    verdict = verdict_on(FLAT)
    assert verdict.slope_mb is not None
    assert verdict.problems == []


@pytest.mark.parametrize("what", LEAKS)
def test_a_process_that_leaks_is_found(what: str) -> None:
    problems = verdict_on(LEAK.format(leak=LEAKS[what])).problems
    assert any(problem.startswith(f"{what} grew") for problem in problems)


def test_a_run_that_fails_is_found() -> None:
    samples, exit_code = watch([sys.executable, "-c", "raise SystemExit(3)"], 5.0, 0.1)
    assert exit_code == 3
    assert "it ended with code 3" in judge("dummy", samples, exit_code).problems
