"""Advantages, returns and importance weights, by hand and against a plain-Python reference."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from briskrl.algos.ppo import gae as advantages
from briskrl.algos.ppo import torch_engine as torch_policies
from briskrl.algos.ppo.kernels.gae import gae
from briskrl.core.counters import Counters
from tests.algos.rollouts import collect, config, make, move, spec


def run_kernel(reward, value, *, final=None, terminated=None, truncated=None, weight=None, **how):
    value = np.array(value, np.float32)
    shape = value.shape

    def full(array, fill, dtype):
        return np.full(shape, fill, dtype) if array is None else np.array(array, dtype)

    settings = {"gamma": 0.5, "lam": 0.5, "scale": 1.0, "limit": np.inf} | how
    advantage, returns = np.full((2, *shape), np.nan, np.float32)
    gae(
        np.array(reward, np.float32),
        value,
        full(final, np.nan, np.float32),
        full(terminated, False, np.bool_),
        full(truncated, False, np.bool_),
        full(weight, 1, np.float32),
        np.array(list(settings.values())),
        advantage,
        returns,
    )
    return advantage[:-1], returns[:-1]


def column(*values):
    return [[value] for value in values]


def test_gae_by_hand():
    # d = r + V'/2 - V: 1 + 1 - 1 = 1, 2 + 2 - 2 = 2, 3 + 4 - 4 = 3; A = d + A'/4.
    advantage, returns = run_kernel(column(1, 2, 3, 99), column(1, 2, 4, 8))
    assert advantage[:, 0].tolist() == [1.6875, 2.75, 3]
    assert returns[:, 0].tolist() == [2.6875, 4.75, 7]


def test_termination_does_not_bootstrap_and_truncation_bootstraps_from_final_obs():
    # Both end the sum: step 0 does not depend on step 1.
    ends = {"terminated": [[True, False], [False] * 2, [False] * 2]}
    ends["truncated"] = [[True, True], [False] * 2, [False] * 2]
    advantage, _ = run_kernel(
        [[1, 1], [2, 2], [0, 0]],
        [[1, 1], [2, 2], [4, 4]],
        final=[[np.nan, 10], [np.nan] * 2, [np.nan] * 2],
        **ends,
    )
    assert advantage.tolist() == [[0, 5], [2, 2]]


def test_lambda_one_is_monte_carlo_and_lambda_zero_one_step_td():
    reward, value = column(1, 2, 3, 0), column(5, 6, 7, 8)
    _, returns = run_kernel(reward, value, lam=1.0)
    assert returns[:, 0].tolist() == [1 + 1 + 0.75 + 1, 2 + 1.5 + 2, 3 + 4]
    advantage, _ = run_kernel(reward, value, lam=0.0)
    assert advantage[:, 0].tolist() == [1 + 3 - 5, 2 + 3.5 - 6, 3 + 4 - 7]


def test_importance_weights_by_hand():
    # As in the first test, d = 1, 2, 3. A[2] = 3; A[1] = 2 + 0.25 * w[2] * 3;
    # A[0] = 1 + 0.25 * w[1] * A[1]; the value target moves by w * A.
    advantage, returns = run_kernel(
        column(1, 2, 3, 0), column(1, 2, 4, 8), weight=column(0.5, 0.25, 1.0, 0.0)
    )
    assert advantage[:, 0].tolist() == [1 + 0.25 * 0.25 * 2.75, 2.75, 3]
    assert returns[:, 0].tolist() == [1 + 0.5 * advantage[0, 0], 2 + 0.25 * 2.75, 7]


def test_rewards_are_scaled_and_then_clipped():
    plain, _ = run_kernel(column(1, -4, 0), column(0, 0, 0), lam=0.0, scale=0.5, limit=1.0)
    assert plain[:, 0].tolist() == [0.5, -1.0]


def vtrace_twin(reward, value, final, terminated, truncated, weight, gamma, lam):
    """V-trace's targets as the sum in Espeholt 2018, equation 1, one step at a time."""
    steps, num_envs = reward.shape[0] - 1, reward.shape[1]
    target = np.zeros((steps, num_envs))
    for n in range(num_envs):
        for start in range(steps):
            total, trace = float(value[start, n]), 1.0
            for t in range(start, steps):
                following = value[t + 1, n]
                if terminated[t, n]:
                    following = 0.0
                elif truncated[t, n]:
                    following = final[t, n]
                error = reward[t, n] + gamma * following - value[t, n]
                total += trace * weight[t, n] * error
                trace *= gamma * lam * weight[t, n]
                if terminated[t, n] or truncated[t, n]:
                    break
            target[start, n] = total
    return target


@given(seed=st.integers(0, 2**32 - 1), steps=st.integers(1, 12), weighted=st.booleans())
def test_returns_equal_the_definition_of_v_trace(seed, steps, weighted):
    rng = np.random.default_rng(seed)
    lead = (steps + 1, 3)
    reward, value, final = rng.standard_normal((3, *lead)).astype(np.float32)
    terminated, truncated = rng.random((2, *lead)) < 0.2
    weight = rng.random(lead).astype(np.float32) if weighted else np.ones(lead, np.float32)
    advantage, returns = run_kernel(
        reward,
        value,
        final=final,
        terminated=terminated,
        truncated=truncated,
        weight=weight,
        gamma=0.97,
        lam=0.9,
    )
    expected = vtrace_twin(reward, value, final, terminated, truncated, weight, 0.97, 0.9)
    assert returns == pytest.approx(expected, abs=2e-5)
    assert value[:-1] + weight[:-1] * advantage == pytest.approx(returns, abs=1e-5)


@pytest.mark.parametrize(
    ("engine", "action", "mask"),
    [
        ("torch", "discrete", False),
        ("torch", "discrete", True),
        ("torch", "several", False),
        ("torch", "continuous", False),
        ("fused", "discrete", False),
        ("fused", "discrete", True),
        ("fused", "several", False),
    ],
)
def test_past_rollouts_have_truncated_importance_weights(engine, action, mask):
    env = spec(action, mask=mask)
    agent = make(env=env, engine=engine)
    rollout = collect(agent, env)
    rollout.age = 1
    move(agent)
    agent.compute_advantages([rollout], Counters())
    with torch.no_grad():
        out = agent.model.network.policy(torch.from_numpy(rollout.obs[:-1]).flatten(0, 1))
        legal = None if not mask else torch.from_numpy(rollout.mask[:-1]).flatten(0, 1)
        taken = torch.from_numpy(rollout.action[:-1]).flatten(0, 1)
        now, _ = agent.model.distribution.evaluate(out, taken, legal)
    now = now.numpy().reshape(8, 6)
    ratio = np.exp(now - rollout.behavior_log_prob[:-1])
    assert (ratio < 0.99).any()
    assert (ratio > 1.01).any()
    assert rollout.old_log_prob[:-1] == pytest.approx(now, abs=1e-5)
    assert rollout.weight[:-1] == pytest.approx(np.minimum(1, ratio), abs=1e-5)


def test_fresh_rollouts_keep_their_log_probs_exactly_and_have_weight_one(engine):
    env = spec()
    agent = make(env=env, engine=engine)
    rollout = collect(agent, env)
    agent.compute_advantages([rollout], Counters())
    assert np.array_equal(rollout.old_log_prob[:-1], rollout.behavior_log_prob[:-1])
    assert (rollout.weight == 1).all()


def test_values_do_not_depend_on_how_observations_are_split_into_chunks(engine, monkeypatch):
    monkeypatch.setattr(torch_policies, "MAX_ROWS", 7)
    monkeypatch.setattr(advantages, "ROWS_PER_PASS", 3)
    env = spec()
    agent = make(config(normalize_reward=False), env, engine=engine)
    rollout = collect(agent, env)
    agent.compute_advantages([rollout], Counters())
    with torch.no_grad():
        value = agent.model.network.values(torch.from_numpy(rollout.obs).flatten(0, 1))
        final = agent.model.network.values(torch.from_numpy(rollout.final_obs).flatten(0, 1))
    value, final = value.numpy().reshape(9, 6), final.numpy().reshape(9, 6)
    assert rollout.value == pytest.approx(value, abs=1e-6)
    expected = vtrace_twin(
        rollout.reward,
        value,
        final,
        rollout.terminated,
        rollout.truncated,
        np.ones((9, 6)),
        agent.config.gamma,
        agent.config.gae_lambda,
    )
    assert rollout.returns[:-1] == pytest.approx(expected, abs=1e-5)


def test_reuse_does_not_change_the_advantages_of_the_newest_rollout():
    env = spec()
    fresh, reusing = make(config(reuse=0), env), make(config(reuse=2), env)
    rollouts = [collect(agent, env) for agent in (fresh, reusing)]
    old = collect(reusing, env, seed=9)
    old.age = 1
    fresh.compute_advantages(rollouts[:1], Counters())
    reusing.compute_advantages([rollouts[1], old], Counters())
    for name in ("old_log_prob", "weight", "value", "advantage", "returns"):
        assert np.array_equal(getattr(rollouts[0], name)[:-1], getattr(rollouts[1], name)[:-1]), (
            name
        )


def test_large_observations_are_evaluated_a_few_at_a_time():
    for shape, rows in (((5,), 4096), ((4, 84, 84), 74)):
        cuts = list(torch_policies.chunks(np.broadcast_to(np.float32(0), (10_000, *shape))))
        assert cuts[0] == slice(0, rows)
        assert cuts[-1].stop == 10_000
        assert all(a.stop == b.start for a, b in pairwise(cuts))


def test_gae_keeps_nan_rewards():
    advantage, returns = run_kernel(
        column(1, np.nan, 1, 0), column(0, 0, 0, 0), terminated=column(0, 0, 1, 0), limit=10.0
    )
    assert np.isnan(returns[:2]).all()
    assert np.isnan(advantage[:2]).all()
    assert returns[2, 0] == 1
