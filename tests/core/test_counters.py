"""The counters of a run and the share of its budget."""

from __future__ import annotations

import pytest

from briskrl.core.counters import Counters


@pytest.mark.parametrize(
    ("budget", "fraction"),
    [
        ({}, 0.0),
        ({"total_steps": 200}, 0.5),
        ({"total_episodes": 40}, 0.25),
        ({"total_steps": 200, "total_episodes": 40}, 0.5),
        ({"total_steps": 1000, "total_episodes": 40}, 0.25),
        ({"total_steps": 50}, 1.0),
    ],
)
def test_the_fraction_is_that_of_the_budget_that_ends_first(
    budget: dict[str, int], fraction: float
) -> None:
    assert Counters(env_steps=100, episodes=10, **budget).fraction == fraction


def test_counters_are_saved_and_the_budget_is_not() -> None:
    counters = Counters(env_steps=100, episodes=10, updates=7, iterations=3, total_steps=200)
    restored = Counters(total_steps=400)
    restored.load_state(counters.state())
    assert restored == Counters(
        env_steps=100, episodes=10, updates=7, iterations=3, total_steps=400
    )
