"""Symptoms: found where they are, and not where they are not, on made-up observations."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import pytest

from briskrl.doctor.report import PhaseRow
from briskrl.doctor.symptoms import (
    cold_start,
    dear_records,
    dear_store,
    growth,
    leak,
    mostly_env,
    record_cause,
    trend,
)
from briskrl.doctor.turns import Turn
from briskrl.doctor.watch import Observation, Stretch

COUNT = 40


def observe(
    costs: Sequence[float],
    *,
    rss: Sequence[float] | None = None,
    writes: Sequence[int] | None = None,
    episodes: Sequence[int] | None = None,
    shares: dict[str, float] | None = None,
) -> Observation:
    """Stretches of 100 steps in 10 iterations each, which cost so many microseconds a step."""
    rng = np.random.default_rng(0)
    stretches = []
    for i, cost in enumerate(costs):
        seconds = 100 * cost * 1e-6 * (1 + 0.02 * rng.normal())
        stretches.append(
            Stretch(
                turn=Turn(10, 100, 10, 1e3 * seconds, 1e3 * seconds, 0.0),
                at_s=float(i),
                steps=100 * (i + 1),
                updates=10 * (i + 1),
                episodes=None if episodes is None else int(np.sum(episodes[: i + 1])),
                rss_mb=100.0 if rss is None else rss[i],
                writes=None if writes is None else int(np.sum(writes[: i + 1])),
            )
        )
    rows = tuple(
        PhaseRow(name, share, share * 1e3, share * 1e3, 100, 10.0, 20.0)
        for name, share in (shares or {"update": 1.0}).items()
    )
    return Observation(tuple(stretches), rows, 1.0)


STEADY = [5.0] * COUNT


def test_a_steady_loop_has_no_symptom() -> None:
    seen = observe(STEADY)
    assert cold_start(seen) is None
    assert growth(seen, observe(STEADY[:5]).stretches) is None
    assert leak(seen) is None
    assert dear_records(seen) is None
    assert mostly_env(seen) is None


def test_a_slow_start_is_told_by_what_it_cost() -> None:
    found = cold_start(observe([25.0] * 4 + STEADY))
    assert found is not None
    assert found.cause == "cold-start"
    # Four stretches of 100,000 us that should have taken 500 each: 4 * 2.0 s are lost.
    assert found.gain.factor == pytest.approx(60 / (60 - 8), rel=0.02)


def test_a_single_slow_stretch_later_is_no_slow_start() -> None:
    assert cold_start(observe([*STEADY, 50.0, *STEADY])) is None


def test_growth_needs_a_rise_that_goes_on() -> None:
    rising = [5 + 0.2 * i for i in range(COUNT)]
    seen = observe(rising)
    found = growth(seen, observe([20.0] * 5).stretches)
    assert found is not None
    # Five microseconds at birth.
    assert found.gain.factor == pytest.approx(20 / 5, rel=0.1)
    back_to_normal = observe([5.0] * 5).stretches
    assert growth(seen, back_to_normal) is None


def test_a_leak_is_memory_that_rises_all_the_time() -> None:
    found = leak(observe(STEADY, rss=[100 + 2 * i for i in range(COUNT)]))
    assert found is not None
    assert "120 MB a minute" in found.title


def test_memory_that_is_filled_once_is_no_leak() -> None:
    filled = [min(180.0, 100.0 + 10 * i) for i in range(COUNT)]
    assert leak(observe(STEADY, rss=filled)) is None


def test_storing_is_dear_if_a_batched_write_is_much_cheaper() -> None:
    seen = observe(STEADY, shares={"store": 0.5, "update": 0.5})
    found = dear_store(seen, 10, lambda: 1e-5)
    assert found is not None
    # Half of 5 ms a step, and ten of them, take 25 ms, where 10 us would do.
    assert found.gain.factor == pytest.approx(1 / (1 - 0.5 * (1 - 1e-5 / 25e-3)), rel=1e-3)
    assert dear_store(seen, 10, lambda: 20e-3) is None


def test_shares_count_computing_by_the_processor_and_waiting_by_the_wall() -> None:
    seen = observe(STEADY)
    rows = (
        PhaseRow("update", 0.5, wall_s=10.0, cpu_s=4.0, calls=1, p50_us=1, p95_us=1),
        PhaseRow("log", 0.25, wall_s=5.0, cpu_s=0.0, calls=1, p50_us=1, p95_us=1),
        PhaseRow("act", 0.25, wall_s=5.0, cpu_s=2.0, calls=1, p50_us=1, p95_us=1),
    )
    # Others had the core for one and a half times as long as the loop computed.
    stretches = tuple(
        replace(s, turn=replace(s.turn, queued_s=1.5 * s.turn.cpu_s)) for s in seen.stretches
    )
    seen = Observation(stretches, rows, 1.0)
    assert seen.own_share("update") == pytest.approx(4 / 11)
    assert seen.own_share("log") == pytest.approx(5 / 11)
    assert seen.own_share("eval") == 0


def test_writes_are_ascribed_to_what_they_go_with() -> None:
    rng = np.random.default_rng(1)
    episodes = rng.integers(3, 9, COUNT)
    by_episode = observe(STEADY, writes=2 * episodes, episodes=episodes)
    assert record_cause(by_episode)[0] == "write-per-episode"
    by_step = observe(STEADY, writes=[10] * COUNT, episodes=episodes)
    assert record_cause(by_step)[0] == "write-per-step"
    hardly = observe(STEADY, writes=[0] * COUNT, episodes=episodes)
    assert record_cause(hardly)[0] == "log"


def test_dear_records_gain_what_they_take() -> None:
    found = dear_records(observe(STEADY, shares={"log": 0.8, "update": 0.2}))
    assert found is not None
    assert found.gain.factor == pytest.approx(5)


def test_an_environment_that_takes_most_is_told_as_a_ceiling() -> None:
    found = mostly_env(observe(STEADY, shares={"env": 0.75, "update": 0.25}))
    assert found is not None
    assert (found.basis, found.gain.factor) == ("ceiling", pytest.approx(4))


def test_a_trend_has_its_slope_and_its_chance() -> None:
    at = np.arange(30.0)
    slope, chance = trend(at, 3 * at + 1)
    assert slope == pytest.approx(3)
    assert chance < 1e-6
    rng = np.random.default_rng(0)
    assert trend(at, rng.normal(size=30))[1] > 0.01
