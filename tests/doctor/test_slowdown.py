"""Costs that grow as a loop runs: the growing phase is named, with its current cost."""

from __future__ import annotations

from dataclasses import replace

import pytest

from briskrl.doctor.observation import Observation
from briskrl.doctor.slowdown import WHOLE, confirmed_rises, find_slowdown, rising_phases
from tests.doctor.fake_observations import COUNT, STEADY, observe

RISING = [5 + 0.2 * i for i in range(COUNT)]


def test_a_steady_loop_does_not_grow() -> None:
    seen = observe(STEADY)
    assert rising_phases(seen) == []
    assert confirmed_rises(seen, observe(STEADY[:6]).windows) == ()
    assert find_slowdown(seen, observe(STEADY[:6]).windows) == (None, set())


def test_growth_needs_a_rise_that_continues() -> None:
    seen = observe(RISING)
    later = observe([20.0] * 6).windows
    found, _ = find_slowdown(seen, later)
    assert found is not None
    # Five milliseconds at the start.
    assert found.gain.factor == pytest.approx(20 / 5, rel=0.1)
    assert found.gain.low <= found.gain.factor <= found.gain.high
    assert confirmed_rises(seen, observe([5.0] * 6).windows) == ()


def test_a_growing_phase_is_named_even_if_the_whole_hardly_grows() -> None:
    log = [0.02 + 0.02 * i for i in range(COUNT)]
    seen = observe([5 + part for part in log], log=log)
    later = observe([6.6] * 6, log=[1.6] * 6).windows
    grown = confirmed_rises(seen, later)
    assert [rise.name for rise in grown] == ["log"]
    assert grown[0].first < 0.1e-3
    found, names = find_slowdown(seen, later)
    assert found is not None
    assert names == {"log"}
    assert "the log phase" in found.evidence[0]
    assert found.gain.factor == pytest.approx(6.6 / 5, rel=0.05)


def test_growth_in_waiting_shows_in_the_whole() -> None:
    def waiting(costs: list[float]) -> Observation:
        seen = observe(costs)
        windows = tuple(
            replace(s, phases={"update": 0.5}, turn=replace(s.turn, cpu_s=0.5))
            for s in seen.windows
        )
        return replace(seen, windows=windows)

    seen, later = waiting(RISING), waiting([20.0] * 6).windows
    assert rising_phases(seen) == [WHOLE]
    grown = confirmed_rises(seen, later)
    assert [rise.name for rise in grown] == [WHOLE]
    found, _ = find_slowdown(seen, later)
    assert found is not None
    assert found.gain.factor == pytest.approx(20 / 5, rel=0.1)


def test_growth_that_costs_little_is_not_reported() -> None:
    log = [0.001 * (1 + i) for i in range(COUNT)]
    seen = observe([5 + part for part in log], log=log)
    later = observe([5.1] * 6, log=[0.1] * 6).windows
    grown = confirmed_rises(seen, later)
    assert [rise.name for rise in grown] == ["log"]
    assert find_slowdown(seen, later) == (None, set())


def test_a_machine_that_gets_slower_is_no_growth() -> None:
    seen = observe(RISING, log=[0.4 * cost for cost in RISING])
    later = observe([20.0] * 6, log=[8.0] * 6).windows
    assert confirmed_rises(seen, later) == ()
