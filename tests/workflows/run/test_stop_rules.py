"""Stop rules and gate: when training under one workflow ends."""

from __future__ import annotations

import math
from dataclasses import replace

import pytest

from briskrl.workflows.run.counts import Counts, pooled
from briskrl.workflows.run.stop_config import StopConfig
from briskrl.workflows.run.stop_rules import judge_gate, stop_reason

CONFIG = StopConfig(
    reward_patience=3,
    compliance_patience=4,
    gate_min_judged=20,
    gate_min_episodes=10,
    gate_min_fixes=1.0,
)


def update(compliance: float, mean_return: float = 0.0, *, episodes: int = 10, judged: int = 20):
    """One rollout."""
    return Counts(
        episodes=episodes,
        steps=10 * episodes,
        returns=mean_return * episodes,
        ok=round(compliance * judged),
        judged=judged,
    )


def reason(course, config=CONFIG, *, cap=10_000, cap_is_budget=False):
    return stop_reason(course, config, threshold=0.95, cap=cap, cap_is_budget=cap_is_budget)


def test_compliance_is_pooled_over_episodes():
    counts = pooled([update(1.0, judged=20), update(0.0, judged=60)])
    assert counts.compliance == 20 / 80


def test_compliance_without_judged_fixes_is_unknown():
    assert math.isnan(Counts(episodes=5).compliance)
    assert math.isnan(Counts(episodes=5).contested_share)
    assert math.isnan(Counts().mean_return)


def test_the_gate_looks_at_the_last_updates_that_hold_enough():
    course = [update(0.0), update(0.0), update(1.0)]
    gate = judge_gate(course, CONFIG, 0.95)
    assert (gate.passed, gate.counts.judged) == (True, 20)


def test_the_gate_takes_more_updates_if_the_last_one_holds_too_little():
    course = [update(0.0), update(0.0, judged=15), update(1.0, judged=10)]
    gate = judge_gate(course, CONFIG, 0.95)
    assert gate.counts.judged == 25
    assert not gate.passed


@pytest.mark.parametrize("short", [{"episodes": 9, "judged": 100}, {"episodes": 50, "judged": 19}])
def test_too_few_episodes_or_fixes_do_not_pass_the_gate(short):
    gate = judge_gate([update(1.0, **short)], CONFIG, 0.95)
    assert (gate.enough, gate.passed) == (False, False)


def test_a_policy_that_hardly_ever_fixes_does_not_pass_the_gate():
    gate = judge_gate([update(1.0, episodes=21, judged=20)], CONFIG, 0.95)
    assert (gate.enough, gate.passed) == (True, False)
    assert judge_gate([update(1.0, episodes=20, judged=20)], CONFIG, 0.95).passed


def test_no_updates_pass_no_gate():
    assert not judge_gate([], CONFIG, 0.95).passed


def test_a_compliant_policy_has_converged_when_its_return_stalls():
    course = [update(1.0, value) for value in (-50, -40, -30, -29.8, -29.75)]
    assert reason(course) is None
    assert reason([*course, update(1.0, -29.8)]) == "converged"


def test_returns_must_improve_by_a_hundredth_and_by_a_tenth():
    # 1 % of 100 is 1: steps of 0.9 do not count.
    assert reason([update(1.0, -100 + 0.3 * k) for k in range(4)]) == "converged"
    assert reason([update(1.0, -100 + 1.1 * k) for k in range(4)]) is None
    # Around 0, a tenth counts.
    assert reason([update(1.0, 0.03 * k) for k in range(4)]) == "converged"
    assert reason([update(1.0, 0.11 * k) for k in range(4)]) is None


def test_a_disobedient_policy_is_given_up_when_compliance_stalls():
    course = [update(0.5), *(update(0.5) for _ in range(3))]
    assert reason(course) is None
    assert reason([*course, update(0.5)]) == "plateau"
    assert reason([*course, update(0.6)]) is None


def test_a_disobedient_policy_is_not_stopped_by_its_return():
    course = [update(0.1 * k, -50.0) for k in range(1, 9)]
    assert reason(course) is None


def test_without_any_judged_fix_training_is_given_up():
    course = [update(0.0, judged=0) for _ in range(4)]
    assert reason(course[:3]) is None
    assert reason(course) == "plateau"


def test_updates_without_episodes_count_for_patience():
    course = [update(0.5), *(Counts() for _ in range(4))]
    assert reason(course) == "plateau"


def test_the_rule_gate_stops_at_once():
    assert reason([update(1.0, -50)], replace(CONFIG, stop_rule="gate")) == "compliant"
    assert reason([update(0.9, -50)], replace(CONFIG, stop_rule="gate")) is None


def test_the_rule_fixed_never_stops_early():
    course = [update(1.0, -50.0)] * 50
    assert reason(course, replace(CONFIG, stop_rule="fixed")) is None
    assert reason(course, replace(CONFIG, stop_rule="fixed"), cap=500) == "cap"


def test_the_cap_comes_before_the_rules():
    course = [update(1.0, -50.0)] * 10
    assert reason(course, cap=100) == "cap"
    assert reason(course, cap=100, cap_is_budget=True) == "budget"
    assert reason([], cap=100) is None
