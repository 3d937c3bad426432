"""Compliance and bonus: the reference case, and random episodes against plain Python."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from briskrl.core.errors import ConfigError
from briskrl.envs.workflow.records import ComplianceRecords
from tests.envs.workflow.reference import Episode
from tests.envs.workflow.scripted import Script, scripted

A, B, C, NOTHING = range(4)
OPEN = [{A}, {A, B}, {A, B}, set[int](), {A}, {A, C}, {C}]
ACTIONS = [NOTHING, A, B, C, A, B, C]
BONUSES = [0, 0, 15, 0, 5, -5, 3]
UNJUDGED = [0, 1, 2, 2, 3, 4, 5]


def play(env: Any, out: Any, actions: list[int]) -> list[float]:
    rewards = []
    for action in actions:
        env.step_into(np.array([action]), out)
        rewards.append(float(out.reward[0]))
    return rewards


def test_the_reference_case() -> None:
    env, out = scripted(Script.single(OPEN, 3, ends=True), workflow="b>a>c")
    assert play(env, out, ACTIONS) == pytest.approx(BONUSES, abs=1e-5)
    found = env.drain_compliance()
    assert (found.count, found.ok[0], found.judged[0], found.idle[0]) == (1, 3, 5, 1)
    assert (found.contested[0], found.contested_ok[0]) == (3, 1)
    assert found.pairs[0].tolist() == [2, 1, 0]
    assert found.compliance == 0.6
    assert found.contested_compliance == pytest.approx(1 / 3)
    assert found.bonus[0] == pytest.approx(18, abs=1e-9)
    assert found.env_return[0] == 0
    assert found.open_steps[0].tolist() == [5, 2, 2]
    assert found.spells[0].tolist() == [2, 1, 1]


def test_the_plain_reference_agrees_with_the_reference_case() -> None:
    episode = Episode([B, A, C])
    counts = []
    for opened, action in zip(OPEN, ACTIONS, strict=True):
        episode.step(opened, -1 if action == NOTHING else action, ended=False)
        counts.append(len(episode.verdicts))
    assert episode.bonuses == pytest.approx(BONUSES)
    assert counts == UNJUDGED
    assert episode.compliance == 0.6


@pytest.mark.parametrize("mode", ["rate", "step", "none"])
@pytest.mark.parametrize("idle_fix", ["ignore", "compliant", "violation"])
@pytest.mark.parametrize(("envs", "m"), [(1, 2), (13, 3), (64, 5)])
def test_random_episodes_equal_plain_python(mode: str, idle_fix: str, envs: int, m: int) -> None:
    steps = 12_000 // envs
    rng = np.random.default_rng(envs)
    script = Script.random(rng, steps, envs, m)
    env, out = scripted(
        script, alignment_mode=mode, idle_fix=idle_fix, violation_weight=0.5, no_fix_penalty=0.3
    )
    options: Any = {"mode": mode, "idle_fix": idle_fix}
    options |= {"violation_weight": 0.5, "no_fix_penalty": 0.3}
    episodes = [Episode(order, **options) for order in current_orders(env)]
    expected: list[tuple[int, int, Episode]] = []
    for t in range(steps):
        actions = rng.integers(m + 1, size=envs)
        before, ids = current_orders(env), env.workflow_ids
        env.step_into(actions, out)
        ended = out.terminated | out.truncated
        for i, episode in enumerate(episodes):
            assert list(episode.order) == before[i]
            opened = set(np.flatnonzero(script.opened[t, i]).tolist())
            addressed = -1 if actions[i] == m else int(actions[i])
            bonus = episode.step(opened, addressed, ended=bool(ended[i]))
            assert out.reward[i] == pytest.approx(script.reward[t, i] + bonus, abs=1e-4)
            if ended[i]:
                expected.append((i, int(ids[i]), episode))
        for i in np.flatnonzero(ended):
            episodes[i] = Episode(current_orders(env)[i], **options)
    found = env.drain_compliance()
    assert found.count == len(expected) > 1000
    assert_records(found, expected, m)
    stats = env.drain_stats()
    np.testing.assert_allclose(found.env_return, stats.returns, atol=1e-4)
    np.testing.assert_array_equal(found.steps, stats.steps)


def assert_records(
    found: ComplianceRecords, expected: list[tuple[int, int, Episode]], m: int
) -> None:
    for k, (env, number, episode) in enumerate(expected):
        assert (found.env[k], found.workflow_id[k]) == (env, number)
        assert found.steps[k] == len(episode.bonuses)
        assert (found.ok[k], found.judged[k]) == (episode.ok, len(episode.verdicts))
        assert found.idle[k] == episode.idle
        assert found.contested[k] == len(episode.contested)
        assert found.contested_ok[k] == episode.contested.count("ok")
        assert found.open_any[k] == sum(map(bool, episode.opened))
        assert found.pairs[k].tolist() == episode.pairs(m)
        assert found.open_steps[k].tolist() == episode.open_steps(m)
        assert found.spells[k].tolist() == episode.spells(m)
        assert found.bonus[k] == pytest.approx(sum(episode.bonuses), abs=1e-9)


def current_orders(env: Any) -> list[list[int]]:
    return [list(env.space.from_id(int(number)).order) for number in env.workflow_ids]


@pytest.mark.parametrize("seed", range(5))
def test_bonuses_of_rate_add_up_to_lambda_times_compliance(seed: int) -> None:
    """Where something was fixed; the penalty has its own test."""
    rng = np.random.default_rng(seed)
    script = Script.random(rng, 400, 8, 4)
    env, out = scripted(script, alignment_lambda=float(rng.uniform(1, 100)))
    for _ in range(400):
        env.step_into(rng.integers(5, size=8), out)
    found = env.drain_compliance()
    some = found.judged > 0
    assert some.sum() > 100
    shares = found.ok[some] / found.judged[some]
    np.testing.assert_allclose(found.bonus[some], env.alignment_lambda * shares, atol=1e-9)


@pytest.mark.parametrize(("mode", "expected"), [("rate", -6.0), ("step", -6.0), ("none", 0.0)])
def test_an_episode_without_a_fix_is_penalized_once(mode: Any, expected: float) -> None:
    env, out = scripted(Script.single([{0}, {0}, set()], 2, ends=True), alignment_mode=mode)
    assert play(env, out, [2, 2, 2]) == pytest.approx([0, 0, expected])
    assert env.drain_compliance().bonus[0] == pytest.approx(expected)


def test_an_episode_in_which_nothing_was_open_is_not_penalized_and_not_pooled() -> None:
    env, out = scripted(Script.single([set(), set()], 2, ends=True))
    assert play(env, out, [0, 2]) == [0, 0]
    found = env.drain_compliance()
    assert (found.judged[0], found.idle[0]) == (0, 1)
    assert np.isnan(found.compliance)
    assert np.isnan(found.macro_compliance)


def test_lambda_is_adapted_after_a_batch() -> None:
    """With threshold 0.9 and a compliance of 0.7, 30 becomes 33.155."""
    actions = [0] * 7 + [1] * 3
    env, out = scripted(
        Script.single([{0, 1}] * 20, 2),
        workflow="a>b",
        alignment_mode="adaptive",
        compliance_threshold=0.9,
        adapt_steps=10,
    )
    rewards = play(env, out, actions[:-1])
    assert rewards == pytest.approx([3.0] * 7 + [-3.0] * 2)
    assert env.alignment_lambda == 30
    play(env, out, actions[-1:])
    assert env.alignment_lambda == pytest.approx(33.155, abs=5e-4)
    play(env, out, [2] * 10)
    assert env.alignment_lambda == pytest.approx(33.155, abs=5e-4), "nothing was judged"


@pytest.mark.parametrize(("action", "limit"), [(0, 0.1), (1, 300.0)])
def test_lambda_stays_within_its_limits(action: int, limit: float) -> None:
    env, out = scripted(
        Script.single([{0, 1}] * 60, 2),
        workflow="a>b",
        alignment_mode="adaptive",
        compliance_threshold=0.5,
        adapt_rate=10.0,
        adapt_steps=1,
    )
    play(env, out, [action] * 60)
    assert env.alignment_lambda == limit


def two_workflows() -> tuple[Any, Any]:
    """Two environments, of which the action 0 obeys the first (a>b) and not the second (b>a)."""
    env, out = scripted(
        Script(
            np.ones((61, 2, 2), np.bool_),
            np.zeros((60, 2), np.float32),
            np.zeros((60, 2), np.bool_),
            np.zeros((60, 2), np.bool_),
        ),
        alignment_mode="adaptive",
        lambda_scope="workflow",
        compliance_threshold=0.9,
        adapt_steps=10,
    )
    env.assign([0, 1], [0, 1])
    env.start(0, out)
    return env, out


def test_each_workflow_gets_its_own_lambda() -> None:
    env, out = two_workflows()
    for _ in range(20):
        env.step_into(np.array([0, 0]), out)
        # Lambda waits for 20 fixes under the workflow, which are two batches.
        assert out.reward.tolist() == [3.0, -3.0]
    easy, hard = 30 * np.exp(0.5 * (0.9 - 1.0)), 30 * np.exp(0.5 * 0.9)
    assert env.alignment_lambda == pytest.approx((easy + hard) / 2)
    env.step_into(np.array([0, 0]), out)
    assert out.reward.tolist() == pytest.approx([easy / 10, -hard / 10])


def test_lambdas_of_workflows_are_saved() -> None:
    env, out = two_workflows()
    for _ in range(15):
        env.step_into(np.array([0, 0]), out)
    other, copy = two_workflows()
    other.set_state(env.get_state())
    for _ in range(10):
        env.step_into(np.array([0, 0]), out)
        other.step_into(np.array([0, 0]), copy)
        np.testing.assert_array_equal(copy.reward, out.reward)
    assert other.alignment_lambda == env.alignment_lambda != 30


@pytest.mark.parametrize(
    ("m", "mode", "message"),
    [(8, "adaptive", "40320"), (3, "rate", "alignment_mode = adaptive")],
)
def test_where_workflows_cannot_have_their_own_lambda(m: int, mode: str, message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        scripted(Script.single([{0}], m), alignment_mode=mode, lambda_scope="workflow")


def test_the_ring_of_records_keeps_the_newest() -> None:
    steps = 5000
    nothing = np.zeros((steps, 1), np.bool_)
    script = Script(
        np.zeros((steps + 1, 1, 2), np.bool_),
        np.arange(steps, dtype=np.float32)[:, None],
        nothing,
        ~nothing,
    )
    env, out = scripted(script)
    play(env, out, [2] * steps)
    found = env.drain_compliance()
    assert found.env_return.tolist() == list(range(steps - 4096, steps))
    assert env.drain_compliance().count == 0
