"""The phase timer: totals, clocks, percentiles and the remainder."""

from __future__ import annotations

import time

import pytest

from briskrl.core.phase import KEPT, Phase, PhaseTimer


class Ticks:
    """A clock that the test moves."""

    def __init__(self) -> None:
        self.ns = 0

    def __call__(self) -> int:
        return self.ns


@pytest.fixture
def ticks() -> Ticks:
    return Ticks()


def test_all_phases_add_up_to_the_total_time(ticks: Ticks) -> None:
    timer = PhaseTimer(ticks)
    with timer[Phase.ENV]:
        ticks.ns += 3_000_000_000
    ticks.ns += 1_000_000_000
    with timer["update"]:
        ticks.ns += 2_000_000_000
    seconds = timer.seconds()
    assert (seconds["env"], seconds["update"], seconds["other"]) == (3.0, 2.0, 1.0)
    assert sum(seconds.values()) == 6.0


def test_percentiles_are_of_the_newest_calls(ticks: Ticks) -> None:
    timer = PhaseTimer(ticks)
    for _ in range(KEPT):
        timer[Phase.ACT].add(50_000)
    for us in range(KEPT):
        timer[Phase.ACT].add(1000 * us)
    stats = timer.stats()["act"]
    assert stats.calls == 2 * KEPT
    assert stats.p50_us == KEPT // 2
    assert stats.p95_us == KEPT * 19 // 20


def test_a_phase_is_found_by_its_name(ticks: Ticks) -> None:
    timer = PhaseTimer(ticks)
    assert timer["store"] is timer[Phase.STORE]
    with pytest.raises(KeyError):
        timer["lunch"]


def test_switching_the_clock_resets_the_times(ticks: Ticks) -> None:
    timer = PhaseTimer()
    with timer["env"]:
        time.sleep(0.001)
    timer.use(ticks)
    with timer["env"]:
        ticks.ns += 5_000
    assert timer.stats()["env"].seconds == 5e-6
    assert timer.stats()["env"].calls == 1


def test_sleeping_takes_no_cpu_time() -> None:
    timer = PhaseTimer(time.process_time_ns)
    with timer["wait"]:
        time.sleep(0.05)
    assert timer.seconds()["wait"] < 0.04
