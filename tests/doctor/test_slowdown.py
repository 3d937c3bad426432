"""Costs that grow with age: told by the part that grows, and by what it costs at an age."""

from __future__ import annotations

from dataclasses import replace

import pytest

from briskrl.doctor.observation import Observation
from briskrl.doctor.slowdown import WHOLE, growth, rises, suspects
from tests.doctor.fake_observations import COUNT, STEADY, observe

RISING = [5 + 0.2 * i for i in range(COUNT)]


def test_a_steady_loop_does_not_grow() -> None:
    seen = observe(STEADY)
    assert suspects(seen) == []
    assert rises(seen, observe(STEADY[:6]).stretches) == ()
    assert growth(seen, observe(STEADY[:6]).stretches) == (None, set())


def test_growth_needs_a_rise_that_goes_on() -> None:
    seen = observe(RISING)
    later = observe([20.0] * 6).stretches
    found, _ = growth(seen, later)
    assert found is not None
    # Five milliseconds at birth.
    assert found.gain.factor == pytest.approx(20 / 5, rel=0.1)
    assert found.gain.low <= found.gain.factor <= found.gain.high
    assert rises(seen, observe([5.0] * 6).stretches) == ()


def test_a_phase_that_grows_is_told_by_name_though_the_whole_hardly_does() -> None:
    log = [0.02 + 0.02 * i for i in range(COUNT)]
    seen = observe([5 + part for part in log], log=log)
    later = observe([6.6] * 6, log=[1.6] * 6).stretches
    grown = rises(seen, later)
    assert [rise.name for rise in grown] == ["log"]
    assert grown[0].first < 0.1e-3
    found, names = growth(seen, later)
    assert found is not None
    assert names == {"log"}
    assert "its log phase" in found.evidence[0]
    assert found.gain.factor == pytest.approx(6.6 / 5, rel=0.05)


def test_growth_that_no_phase_shows_by_the_processor_shows_in_the_whole() -> None:
    def waiting(costs: list[float]) -> Observation:
        seen = observe(costs)
        stretches = tuple(
            replace(s, phases={"update": 0.5}, turn=replace(s.turn, cpu_s=0.5))
            for s in seen.stretches
        )
        return replace(seen, stretches=stretches)

    seen, later = waiting(RISING), waiting([20.0] * 6).stretches
    assert suspects(seen) == [WHOLE]
    grown = rises(seen, later)
    assert [rise.name for rise in grown] == [WHOLE]
    found, _ = growth(seen, later)
    assert found is not None
    assert found.gain.factor == pytest.approx(20 / 5, rel=0.1)


def test_growth_that_costs_little_at_that_age_is_not_worth_a_word() -> None:
    log = [0.001 * (1 + i) for i in range(COUNT)]
    seen = observe([5 + part for part in log], log=log)
    later = observe([5.1] * 6, log=[0.1] * 6).stretches
    grown = rises(seen, later)
    assert [rise.name for rise in grown] == ["log"]
    assert growth(seen, later) == (None, set())


def test_a_machine_that_gets_slower_is_no_growth() -> None:
    seen = observe(RISING, log=[0.4 * cost for cost in RISING])
    later = observe([20.0] * 6, log=[8.0] * 6).stretches
    assert rises(seen, later) == ()
