"""The budget of a search: reservations and plans."""

from __future__ import annotations

import pytest

from briskrl.core.errors import ConfigError
from briskrl.workflows.run.budget import Budget, plan_search
from briskrl.workflows.run.stop_config import StopConfig

NOTES = Budget(total=100_000, cap=10_000, eval_episodes=200, num_envs=200)


def plan(budget=NOTES, **changes):
    settings = {
        "base_episodes": 10_000,
        "space_size": 120,
        "stop": StopConfig(),
        "episodes_per_update": 100.0,
        **changes,
    }
    return plan_search(budget, **settings)


def test_the_plan_of_the_notes():
    found = plan()
    # 90,000 are left: 8 workflows of 10,200, and 8,400 for a ninth.
    assert (found.worst_case, found.most_per_workflow) == (9, 10_200)
    # 11 updates of 100 episodes and 200 of evaluation: 69 workflows of 1,300, and a rest of 300.
    assert (found.least_per_workflow, found.best_case) == (1_300, 69)


def test_a_plan_for_few_workflows_warns():
    (warning,) = plan().warnings
    assert "9 of 120" in warning
    assert plan(space_size=24).warnings == ()


def test_a_fixed_rule_has_one_case():
    found = plan(stop=StopConfig(stop_rule="fixed"))
    assert found.best_case == found.worst_case == 9


def test_the_rule_gate_may_end_after_its_window():
    found = plan(stop=StopConfig(stop_rule="gate", gate_min_episodes=250))
    assert found.least_per_workflow == 300 + 200


def test_a_space_of_one_workflow_is_visited_once():
    assert plan(space_size=1).best_case == 1
    assert plan(space_size=2).best_case == 6


def test_too_small_a_budget_is_refused_with_the_smallest_sufficient_number():
    small = Budget(total=10_399, cap=10_000, eval_episodes=200, num_envs=200)
    with pytest.raises(ConfigError, match="10400"):
        plan(small)
    enough = Budget(total=10_400, cap=10_000, eval_episodes=200, num_envs=200)
    assert plan(enough).worst_case == 1


def test_the_last_workflow_gets_what_is_left():
    assert NOTES.cap_for(50_000) == 10_000
    assert NOTES.cap_for(10_199) == 9_999
    assert NOTES.cap_for(400) == 200
    assert NOTES.cap_for(399) is None
