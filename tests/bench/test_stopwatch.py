"""Stopwatches add up the time of all uses."""

from __future__ import annotations

from time import process_time

import pytest

from briskrl.bench import stopwatch
from briskrl.bench.stopwatch import Stopwatch, per_second


def test_the_times_of_all_uses_add_up(monkeypatch: pytest.MonkeyPatch) -> None:
    wall, cpu = iter([10.0, 13.0, 20.0, 24.0]), iter([1.0, 2.0, 5.0, 5.5])
    monkeypatch.setattr(stopwatch, "perf_counter", lambda: next(wall))
    monkeypatch.setattr(stopwatch, "process_time", lambda: next(cpu))
    watch = Stopwatch()
    for _ in range(2):
        with watch:
            pass
    assert (watch.wall_s, watch.cpu_s) == (7.0, 1.5)


def test_time_outside_does_not_count() -> None:
    watch = Stopwatch()
    with watch:
        pass
    end = process_time() + 0.02
    while process_time() < end:
        pass
    assert watch.cpu_s < 0.02


def test_rates_never_divide_by_zero() -> None:
    assert per_second(10, 2.0) == 5.0
    assert per_second(1, 0.0) == pytest.approx(1e9)
