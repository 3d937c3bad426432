"""Examining a call in this process, as `%%brisk_doctor` does with a cell."""

from __future__ import annotations

import gc
import signal
import time

import pytest

from briskrl.doctor.notebook import watch_call


class Counter:
    def __init__(self) -> None:
        self.at = 0

    def reset(self) -> int:
        return 0

    def step(self, action: int) -> tuple[int, float, bool]:
        self.at += sum(range(2_000)) * 0 + 1
        return self.at, 1.0, False


def loop_for(seconds: float, counter: Counter) -> None:
    end = time.time() + seconds
    while time.time() < end:
        counter.step(1)


def test_a_call_is_examined_and_leaves_no_hooks() -> None:
    step, handler, collectors = Counter.step, signal.getsignal(signal.SIGPROF), len(gc.callbacks)
    counter = Counter()
    report = watch_call(lambda: loop_for(1.5, counter))
    assert report.speed is not None
    assert report.speed.steps == pytest.approx(counter.at, rel=0.5)
    assert "env" in {row.name for row in report.phases}
    assert Counter.step is step
    assert signal.getsignal(signal.SIGPROF) == handler
    assert len(gc.callbacks) == collectors


def test_an_error_in_the_call_is_raised_and_leaves_no_hooks() -> None:
    step = Counter.step

    def fail() -> None:
        loop_for(0.3, Counter())
        raise LookupError("mine")

    with pytest.raises(LookupError, match="mine"):
        watch_call(fail)
    assert Counter.step is step


def test_the_magic_runs_the_cell_and_prints_the_report(
    capsys: pytest.CaptureFixture[str],
) -> None:
    shells = pytest.importorskip("IPython.core.interactiveshell")
    shell = shells.InteractiveShell.instance()
    try:
        shell.run_line_magic("load_ext", "briskrl.doctor.notebook")
        shell.user_ns.update(loop_for=loop_for, counter=Counter())
        shell.run_cell_magic("brisk_doctor", "", "loop_for(3, counter)\nmine = 5")
        assert shell.user_ns["mine"] == 5
        assert "Where the time goes" in capsys.readouterr().out
    finally:
        shells.InteractiveShell.clear_instance()
