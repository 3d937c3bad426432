"""PQN against values computed by hand from its own network."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from briskrl.algos.pqn.config import PQNConfig
from briskrl.algos.pqn.policy import PQNPolicy
from briskrl.core.counters import Counters
from briskrl.core.errors import ConfigError
from briskrl.core.types import Decision
from tests.algos.pqn.agents import (
    collect,
    config,
    make,
    q_values,
    random_minibatch,
    spec,
    update,
)


def best_legal(values, legal):
    if legal is None or not legal.any():
        return values.max()
    return values[legal].max()


def returns_by_hand(agent, rollout, gamma, lam):
    """The lambda-returns of a rollout, step by step from the end."""
    steps, num_envs = len(rollout.reward) - 1, rollout.reward.shape[1]
    returns = np.zeros((steps, num_envs))
    for n in range(num_envs):
        for t in reversed(range(steps)):
            reward = float(rollout.reward[t, n])
            if rollout.terminated[t, n]:
                returns[t, n] = reward
                continue
            if rollout.truncated[t, n]:
                legal = None if rollout.final_mask is None else rollout.final_mask[t, n]
                values = q_values(agent, rollout.final_obs[t, n][None])[0]
                returns[t, n] = reward + gamma * best_legal(values, legal)
                continue
            legal = None if rollout.mask is None else rollout.mask[t + 1, n]
            following = best_legal(q_values(agent, rollout.obs[t + 1, n][None])[0], legal)
            later = returns[t + 1, n] if t + 1 < steps else following
            returns[t, n] = reward + gamma * ((1 - lam) * following + lam * later)
    return returns


@pytest.mark.parametrize("masked", [False, True])
@pytest.mark.parametrize("lam", [0.0, 0.65, 1.0])
def test_returns_are_the_lambda_returns_by_hand(engine, masked, lam):
    env = spec(mask=masked)
    agent = make(config(q_lambda=lam, gamma=0.9), env, engine=engine)
    rollout = collect(agent, env, steps=12, num_envs=7)
    assert (rollout.truncated & ~rollout.terminated)[:-1].any()
    assert rollout.terminated[:-1].any()
    agent.compute_advantages([rollout], Counters())
    expected = returns_by_hand(agent, rollout, 0.9, lam)
    assert rollout.returns[:-1] == pytest.approx(expected, rel=1e-4, abs=1e-4)


def test_a_known_return_of_three_steps():
    """Rewards 1, 2, 3, values 10 and 20 of the next states, gamma 0.5, lambda 0.5, then the end."""
    agent = make(config(q_lambda=0.5, gamma=0.5))
    rollout = collect(agent, spec(), steps=3, num_envs=1)
    rollout.reward[:3, 0] = 1, 2, 3
    rollout.terminated[:, 0] = False, False, True, False
    rollout.truncated[:] = False

    class Known:
        def values(self, obs, mask, out):
            out[...] = np.array([5, 10, 20, 99], np.float32)[: len(out)]

    agent._returns.compute(rollout, Known())
    last = 3.0
    middle = 2 + 0.5 * (0.5 * 20 + 0.5 * last)
    first = 1 + 0.5 * (0.5 * 10 + 0.5 * middle)
    assert rollout.returns[:3, 0].tolist() == pytest.approx([first, middle, last])


@pytest.mark.parametrize("pieces", [1, 3])
def test_the_gradient_is_the_mean_of_errors_at_the_taken_actions(engine, pieces):
    settings = config(max_grad_norm=0.0, grad_accumulation=pieces, layer_norm=False)
    agent = make(settings, engine=engine)
    batch = random_minibatch(spec(), 10)
    q = agent.model.network(torch.from_numpy(batch.obs))
    taken = q[torch.arange(10), torch.from_numpy(batch.action)]
    error = (taken.detach() - torch.from_numpy(batch.returns)) / 10
    by_hand = torch.autograd.grad(taken, list(agent.model.network.parameters()), error)
    update(agent, batch)
    expected = torch.cat([g.flatten() for g in by_hand])
    assert torch.allclose(agent.model.flat.gradients, expected, atol=1e-6)
    loss = 0.5 * float(((error * 10) ** 2).mean())
    figures = agent.progress(Counters(total_steps=100))
    assert figures["loss"] == pytest.approx(loss, rel=1e-4)
    assert figures["q_value"] == pytest.approx(float(taken.mean()), rel=1e-4, abs=1e-6)


def test_it_overfits_one_batch(engine):
    agent = make(config(lr=3e-3, lr_schedule="constant"), engine=engine)
    batch = random_minibatch(spec(), 12)
    for _ in range(600):
        update(agent, batch)
    got = q_values(agent, batch.obs)[np.arange(12), batch.action]
    assert got == pytest.approx(batch.returns, abs=0.15)


@pytest.mark.parametrize("options", [{}, {"normalize_obs": True, "normalize_reward": True}])
def test_a_restored_agent_continues_to_the_same_bits(engine, options):
    env = spec(mask=True)
    original, restored = (
        make(config(**options), env, seed=seed, engine=engine) for seed in (0, 99)
    )
    for k in range(3):
        original.compute_advantages([collect(original, env, seed=k)], Counters())
        update(original, random_minibatch(env, 20, seed=k))
    original.act(*two(env), Counters(), decision())
    restored.load_state(original.state())
    for agent in (original, restored):
        rollout = collect(agent, env, seed=5)
        # Exploration draws from a stream that the trainer saves.
        rollout.action[...] = 1
        agent.compute_advantages([rollout], Counters())
        assert np.isfinite(rollout.returns[:-1]).all()
        update(agent, random_minibatch(env, 20, seed=9))
    assert torch.equal(original.model.flat.values, restored.model.flat.values)
    states = original.state()["model"].arrays, restored.state()["model"].arrays
    assert all(np.array_equal(states[0][name], states[1][name]) for name in states[0])


def two(env):
    rng = np.random.default_rng(1)
    obs = rng.random((2, *env.obs.shape)).astype(env.obs.dtype)
    return obs, np.array([[False, True, False], [True, False, True]])


def decision(count=2):
    return Decision(np.zeros(count, np.int64), np.ones(count, np.float32))


@pytest.mark.parametrize("epsilon", [0.0, 1.0])
def test_actions_are_legal_and_greedy_ones_the_best(engine, epsilon):
    env = spec(mask=True)
    agent = make(config(epsilon_start=epsilon, epsilon_end=epsilon), env, engine=engine)
    rng = np.random.default_rng(0)
    obs, mask = rng.random((200, 5), np.float32), rng.random((200, 3)) < 0.5
    out = decision(200)
    agent.act(obs, mask, Counters(), out)
    legal = mask | ~mask.any(1, keepdims=True)
    assert legal[np.arange(200), out.action].all()
    best = np.where(legal, q_values(agent, obs), -np.inf).argmax(1)
    assert (out.action == best).all() == (epsilon == 0)
    assert not out.log_prob.any()


def test_epsilon_decays_over_a_share_of_the_budget():
    agent = make(config(epsilon_end=0.1, exploration_fraction=0.25))
    at = [agent.epsilon(Counters(env_steps=n, total_steps=1000)) for n in (0, 125, 250, 900)]
    assert at == pytest.approx([1.0, 0.55, 0.1, 0.1])
    steps = make(config(epsilon_end=0.1, epsilon_steps=500))
    assert steps.epsilon(Counters(env_steps=250, total_steps=1000)) == pytest.approx(0.55)


@pytest.mark.parametrize("norm", [False, True])
def test_a_cnn_learns_returns_of_planes(norm):
    env = spec(shape=(2, 4, 4), dtype=np.uint8)
    settings = config(lr=3e-3, lr_schedule="constant", body="cnn", layer_norm=norm)
    agent = make(settings, env)
    assert len(agent.model.network.body.norms) == norm
    batch = random_minibatch(env, 12)
    for _ in range(400):
        update(agent, batch)
    got = q_values(agent, batch.obs)[np.arange(12), batch.action]
    assert got == pytest.approx(batch.returns, abs=0.2)


@pytest.mark.parametrize("options", [{}, {"normalize_obs": True, "dueling": True}])
def test_the_policy_acts_like_the_agent_without_exploration(engine, options):
    env = spec()
    agent = make(config(epsilon_start=0, epsilon_end=0, **options), env, engine=engine)
    agent.compute_advantages([collect(agent, env)], Counters())
    obs = (3 + np.random.default_rng(2).standard_normal((50, 5))).astype(np.float32)
    out = decision(50)
    agent.act(obs, None, Counters(), out)
    policy = PQNPolicy(agent.config, env.obs, env.action, agent.state()["model"].arrays)
    assert (policy.act(obs, None) == out.action).all()
    assert policy.fitted(env) is policy


def test_other_actions_than_a_single_choice_are_refused():
    with pytest.raises(ConfigError, match="--algo ppo"):
        make(env=spec("continuous"))
    with pytest.raises(ConfigError, match="fcn"):
        make(config(body="fcn"), spec(shape=(2, 4, 4)))


def test_parts_of_a_gradient_must_not_be_empty():
    assert PQNConfig(grad_accumulation=200, minibatch_size=100).check()
    assert not PQNConfig().check()
