"""Symptoms are found where they are and nowhere else, on synthetic observations."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from briskrl.doctor.observation import Observation
from briskrl.doctor.report.records import PhaseRow
from briskrl.doctor.symptoms import (
    cold_start,
    expensive_logging,
    expensive_store,
    leak,
    many_updates,
    mostly_env,
    record_cause,
    trend,
)
from tests.doctor.fake_observations import COUNT, STEADY, observe


def test_a_steady_loop_has_no_symptom() -> None:
    seen = observe(STEADY)
    assert cold_start(seen) is None
    assert leak(seen) is None
    assert expensive_logging(seen) is None
    assert mostly_env(seen) is None
    assert many_updates(seen) is None


def test_a_slow_start_is_reported_with_its_cost() -> None:
    found = cold_start(observe([25.0] * 4 + STEADY))
    assert found is not None
    assert found.cause == "cold-start"
    # Four windows of 100,000 us that should have taken 500 each: 4 * 2.0 s are lost.
    assert found.gain.factor == pytest.approx(60 / (60 - 8), rel=0.02)


def test_a_single_slow_window_later_is_no_slow_start() -> None:
    assert cold_start(observe([*STEADY, 50.0, *STEADY])) is None


def test_memory_that_rises_steadily_is_a_leak() -> None:
    found = leak(observe(STEADY, rss=[100 + 2 * i for i in range(COUNT)]))
    assert found is not None
    assert "120 MB per minute" in found.title


def test_memory_that_is_filled_once_is_no_leak() -> None:
    filled = [min(180.0, 100.0 + 10 * i) for i in range(COUNT)]
    assert leak(observe(STEADY, rss=filled)) is None


def test_memory_that_hardly_grows_after_buffers_are_filled_is_no_leak() -> None:
    filled = COUNT // 3
    early = [100 + 60 * i / filled for i in range(filled)]
    late = [160 + 6 * i / (COUNT - filled) for i in range(COUNT - filled)]
    assert leak(observe(STEADY, rss=early + late)) is None
    assert leak(observe(STEADY, rss=early + [160 + 2 * i for i in range(COUNT - filled)]))


def test_storing_is_expensive_if_a_batched_write_is_much_cheaper() -> None:
    seen = observe(STEADY, shares={"store": 0.5, "update": 0.5})
    found = expensive_store(seen, 10, lambda: 1e-5, lambda: 1e-5)
    assert found is not None
    # Half of 5 ms a step, and ten of them, take 25 ms, where 10 us would do.
    assert found.gain.factor == pytest.approx(1 / (1 - 0.5 * (1 - 1e-5 / 25e-3)), rel=1e-3)
    assert expensive_store(seen, 10, lambda: 20e-3, lambda: 1e-5) is None


def test_expensive_sampling_counts_with_expensive_storing() -> None:
    seen = observe(STEADY, shares={"store": 0.25, "sample": 0.25, "update": 0.5})
    found = expensive_store(seen, 10, lambda: 0.0, lambda: 0.0)
    assert found is not None
    assert found.gain.factor == found.gain.high == pytest.approx(2)
    assert found.gain.low == pytest.approx(1 / 0.75)
    # A quarter of 5 ms a step, in 100 calls per million steps, is 12.5 s a call.
    cheap = expensive_store(seen, 10, lambda: 0.0, lambda: 12.0)
    assert cheap is not None
    assert cheap.gain.factor == pytest.approx(1 / 0.75)


def test_shares_count_computing_by_cpu_time_and_waiting_by_wall_time() -> None:
    seen = observe(STEADY)
    rows = (
        PhaseRow("update", 0.5, wall_s=10.0, cpu_s=4.0, calls=1, p50_us=1, p95_us=1),
        PhaseRow("log", 0.25, wall_s=5.0, cpu_s=0.0, calls=1, p50_us=1, p95_us=1),
        PhaseRow("act", 0.25, wall_s=5.0, cpu_s=2.0, calls=1, p50_us=1, p95_us=1),
    )
    # Others had the core for one and a half times as long as the loop computed.
    windows = tuple(
        replace(s, turn=replace(s.turn, queued_s=1.5 * s.turn.cpu_s)) for s in seen.windows
    )
    seen = Observation(windows, rows, 1.0)
    assert seen.own_share("update") == pytest.approx(4 / 11)
    assert seen.own_share("log") == pytest.approx(5 / 11)
    assert seen.own_share("eval") == 0


def test_a_share_range_covers_most_windows() -> None:
    log = [1.0] * (COUNT // 2) + [3.0] * (COUNT // 2)
    seen = observe(STEADY, log=log)
    rows = (
        PhaseRow("update", 0.6, wall_s=6.0, cpu_s=6.0, calls=1, p50_us=1, p95_us=1),
        PhaseRow("log", 0.4, wall_s=4.0, cpu_s=4.0, calls=1, p50_us=1, p95_us=1),
    )
    low, high = replace(seen, phases=rows).share_range("log")
    assert low == pytest.approx(0.2, abs=0.02)
    assert high == pytest.approx(0.6, abs=0.04)


def test_writes_are_attributed_to_steps_or_episodes() -> None:
    rng = np.random.default_rng(1)
    episodes = rng.integers(3, 9, COUNT)
    by_episode = observe(STEADY, writes=2 * episodes, episodes=episodes)
    assert record_cause(by_episode)[0] == "write-per-episode"
    by_step = observe(STEADY, writes=[10] * COUNT, episodes=episodes)
    assert record_cause(by_step)[0] == "write-per-step"
    hardly = observe(STEADY, writes=[0] * COUNT, episodes=episodes)
    assert record_cause(hardly)[0] == "log"


def test_expensive_logging_gains_the_time_it_takes() -> None:
    found = expensive_logging(observe(STEADY, shares={"log": 0.8, "update": 0.2}))
    assert found is not None
    assert found.gain.factor == pytest.approx(5)


def test_an_environment_that_takes_most_of_the_time_is_an_upper_bound() -> None:
    found = mostly_env(observe(STEADY, shares={"env": 0.75, "update": 0.25}))
    assert found is not None
    assert (found.basis, found.gain.factor) == ("ceiling", pytest.approx(4))


def test_an_environment_that_takes_a_third_is_reported_only_if_its_steps_are_slow() -> None:
    shares = {"env": 0.4, "update": 0.6}
    slow = mostly_env(observe(STEADY, shares=shares))
    assert slow is not None
    assert slow.gain.factor == pytest.approx(1 / 0.6)
    assert mostly_env(observe([0.02] * COUNT, shares=shares)) is None


def test_saving_counts_as_logging() -> None:
    rng = np.random.default_rng(1)
    episodes = rng.integers(3, 9, COUNT)
    shares = {"save": 0.5, "update": 0.5}
    written = expensive_logging(observe(STEADY, writes=episodes, episodes=episodes, shares=shares))
    assert written is not None
    assert (written.cause, written.gain.factor) == ("write-per-episode", pytest.approx(2))
    computed = expensive_logging(observe(STEADY, shares=shares))
    assert computed is not None
    assert computed.cause == "save"


def test_more_than_one_update_per_transition_is_reported_with_the_gain_of_one() -> None:
    shares = {"update": 0.8, "sample": 0.1, "env": 0.1}
    found = many_updates(observe(STEADY, shares=shares, updates=400))
    assert found is not None
    # Four per transition take nine tenths; one would take a quarter of that.
    assert found.gain.factor == pytest.approx(1 / (0.1 + 0.9 / 4))
    assert found.alters_learning
    assert many_updates(observe(STEADY, shares=shares, updates=10)) is None


def test_several_updates_per_iteration_are_reported_with_the_gain_of_one() -> None:
    shares = {"update": 0.8, "sample": 0.1, "env": 0.1}
    found = many_updates(observe(STEADY, shares=shares, updates=100))
    assert found is not None
    # Ten per iteration of ten transitions; one would take a tenth of that.
    assert found.gain.factor == pytest.approx(1 / (0.1 + 0.9 / 10))


def test_a_trend_has_a_rate_and_a_p_value() -> None:
    at = np.arange(30.0)
    rate, p_value = trend(at, 3 * at + 1)
    assert rate == pytest.approx(3)
    assert p_value < 1e-6
    rng = np.random.default_rng(0)
    assert trend(at, rng.normal(size=30))[1] > 0.01


def test_noise_is_as_rarely_a_trend_as_its_p_value_says() -> None:
    rng = np.random.default_rng(2)
    at = np.arange(30.0)
    found = [trend(at, rng.standard_normal(30))[1] for _ in range(1000)]
    assert np.mean(np.array(found) < 0.05) == pytest.approx(0.05, abs=0.02)
    assert np.mean(np.array(found) < 0.5) == pytest.approx(0.5, abs=0.05)
