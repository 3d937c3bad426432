"""PPO and its relatives as an agent: consistency, limits, state, learning."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
import torch

from briskrl.algos.ppo.config import PPO_PRESETS
from briskrl.algos.ppo.policy import StochasticPolicy
from briskrl.core.counters import Counters
from briskrl.core.errors import DivergedError
from briskrl.core.types import MINIBATCH_FIELDS, Decision, action_layout
from briskrl.nets.dense_autograd import DenseActorCritic
from tests.algos.rollouts import (
    collect,
    config,
    make,
    minibatch,
    observations,
    parameters,
    spec,
    with_advantages,
)

SPACES = {
    "discrete": spec(),
    "masked": spec(mask=True),
    "several": spec("several"),
    "continuous": spec("continuous"),
    "planes": spec(shape=(2, 4, 4), dtype=np.uint8, mask=True),
    "flattened planes": spec(shape=(2, 3), dtype=np.uint8),
    "doubles": spec(dtype=np.float64),
}


ENGINES_AND_SPACES = [
    *(("torch", space) for space in SPACES),
    *(("fused", space) for space in SPACES if space not in ("continuous", "planes")),
]

CASES = [
    *((engine, "ppo", space) for engine, space in ENGINES_AND_SPACES),
    *(
        (engine, preset, "masked")
        for engine in ("torch", "fused")
        for preset in ("a2c", "reinforce")
    ),
]


@pytest.mark.parametrize(("engine", "space"), ENGINES_AND_SPACES)
@pytest.mark.parametrize("options", [{}, {"normalize_obs": True, "shared": True}], ids=str)
def test_the_ratio_is_one_in_the_first_update_on_a_rollout(engine, space, options):
    env = SPACES[space]
    agent = make(config(**options), env, engine=engine)
    for seed in range(3):
        rollout = collect(agent, env, seed=seed)
        agent.compute_advantages([rollout], Counters())
        batch = minibatch(rollout, env, np.arange(48))
        assert ratios(agent, batch) == pytest.approx(np.ones(48), abs=1e-5)
        for _ in range(3):
            agent.update(batch, Counters())
        assert np.abs(ratios(agent, batch) - 1).max() > 1e-4


def ratios(agent, batch):
    """The probability ratios of recorded actions, by the network that updates use."""
    mask = None if batch.mask is None else torch.from_numpy(batch.mask)
    with torch.no_grad():
        out, _ = agent.model.network(torch.from_numpy(batch.obs))
        now, _ = agent.model.distribution.evaluate(out, torch.from_numpy(batch.action), mask)
    return np.exp(now.numpy() - batch.old_log_prob)


def test_new_observation_statistics_are_used_from_the_next_act_on(engine):
    env = spec()
    agent = make(config(normalize_obs=True), env, engine=engine)
    rollout = collect(agent, env)
    agent.compute_advantages([rollout], Counters())
    assert not agent.model.network.inputs.mean.any()
    collect(agent, env, seed=1)
    expected = rollout.obs[:-1].reshape(-1, 5).mean(0)
    assert agent.model.network.inputs.mean.numpy() == pytest.approx(expected, rel=1e-5)


@pytest.mark.parametrize(("engine", "preset", "space"), CASES)
def test_a_restored_agent_continues_to_the_same_bits(engine, preset, space):
    env = SPACES[space]
    options = PPO_PRESETS[preset] | {"normalize_obs": True, "normalize_reward": True}
    original, restored = (
        make(config(**options), env, seed=seed, engine=engine) for seed in (0, 99)
    )
    learn(original, env, seed=0)
    restored.load_state(original.state())
    restored._rng.bit_generator.state = original._rng.bit_generator.state
    for seed in (1, 2):
        learn(original, env, seed)
        learn(restored, env, seed)
        assert np.array_equal(parameters(original), parameters(restored))
    first, second = original.state(), restored.state()
    for part in ("model", "optim"):
        assert first[part].scalars == second[part].scalars
        for name, array in first[part].arrays.items():
            assert np.array_equal(array, second[part].arrays[name]), name


def learn(agent, env, seed):
    rollout = collect(agent, env, seed=seed)
    agent.compute_advantages([rollout], Counters())
    order = np.random.default_rng(seed).permutation(48)
    for part in np.array_split(order, 3):
        agent.update(minibatch(rollout, env, part), Counters())


def test_without_reuse_an_update_is_plain_ppo_to_the_bit():
    """A loss written without importance weights gives the same bits."""
    env = spec("continuous")
    agent, batch = with_advantages(config(lr_schedule="constant"), env)
    plain, _ = with_advantages(config(lr_schedule="constant"), env)
    network = DenseActorCritic(plain.model.network)
    for _ in range(4):
        agent.update(batch, Counters())
        obs, action = torch.from_numpy(batch.obs), torch.from_numpy(batch.action)
        advantage = torch.from_numpy(plain._advantages(batch))
        out, value = network(obs)
        log_prob, entropy = plain.model.distribution.evaluate(out, action, None)
        ratio = (log_prob - torch.from_numpy(batch.old_log_prob)).exp()
        policy = -torch.min(ratio * advantage, ratio.clamp(0.8, 1.2) * advantage)
        error = (value.squeeze(1) - torch.from_numpy(batch.returns)).square()
        plain.model.flat.gradients.zero_()
        ((policy + 0.5 * error - 0.01 * entropy).sum() / len(batch.returns)).backward()
        plain.model.optimizer.step()
        assert np.array_equal(parameters(agent), parameters(plain))


def test_the_learning_rate_falls_linearly_to_zero(engine):
    agent, batch = with_advantages(config(lr=1e-2), engine=engine)
    counters = Counters(env_steps=75, total_steps=100)
    assert agent.progress(counters)["lr"] == pytest.approx(2.5e-3)
    before = parameters(agent)
    agent.update(batch, Counters(env_steps=100, total_steps=100))
    assert np.array_equal(parameters(agent), before)
    agent.update(batch, counters)
    # Adam's first step moves every parameter by at most the learning rate.
    assert np.abs(parameters(agent) - before).max() == pytest.approx(2.5e-3, rel=0.3)


@pytest.mark.parametrize(
    ("engine", "space"), [("torch", "discrete"), ("torch", "continuous"), ("fused", "discrete")]
)
def test_updates_stop_when_the_target_kl_is_exceeded(engine, space):
    settings = config(target_kl=0.01, lr=1e-2, clip=10.0)
    agent, batch = with_advantages(settings, SPACES[space], engine=engine)
    went_on = [agent.update(batch, Counters()) for _ in range(50)]
    assert went_on[0]
    assert not went_on[-1]
    stopped = parameters(agent)
    agent.update(batch, Counters())
    assert np.array_equal(parameters(agent), stopped)


def test_advantages_are_normalized_per_minibatch():
    agent, batch = with_advantages()
    scaled = agent._advantages(batch)
    expected = (batch.advantage - batch.advantage.mean()) / batch.advantage.std(ddof=1)
    assert scaled == pytest.approx(expected, abs=1e-5)
    plain, _ = with_advantages(config(normalize_advantage=False))
    assert plain._advantages(batch) is batch.advantage


def test_the_peers_baseline_is_the_mean_return_of_all_environments():
    agent, env = make(config(baseline="peers", gae_lambda=1.0, normalize_reward=False)), spec()
    rollout = collect(agent, env)
    agent.compute_advantages([rollout], Counters())
    returns = rollout.returns[:-1]
    expected = returns - returns.mean(axis=1, keepdims=True)
    np.testing.assert_allclose(rollout.advantage[:-1], expected, atol=1e-6)
    assert np.ptp(returns) > 0.1


@pytest.mark.parametrize("engine", ["torch", "fused"])
def test_behavior_cloning_is_the_gradient_of_the_cross_entropy_and_keeps_the_optimizer(engine):
    env = spec()
    agents = [make(config(pretrain_lr=1e-3, value_coef=0.0), env, engine=engine) for _ in "ab"]
    rollout = collect(agents[0], env)
    for agent in agents:
        agent.compute_advantages([rollout], Counters())
    batch = minibatch(rollout, env, np.arange(48))
    before = {name: array.copy() for name, array in agents[0].state()["optim"].arrays.items()}
    with agents[0].behavior_cloning():
        agents[0].update(batch, Counters())
    network = agents[1].model.network
    out = network.policy(torch.from_numpy(batch.obs))
    loss = torch.nn.functional.cross_entropy(out, torch.from_numpy(batch.action))
    optimizer = torch.optim.Adam(network.parameters(), lr=1e-3, eps=agents[1].config.adam_eps)
    loss.backward()
    torch.nn.utils.clip_grad_norm_(network.parameters(), agents[1].config.max_grad_norm)
    optimizer.step()
    np.testing.assert_allclose(parameters(agents[0]), parameters(agents[1]), atol=2e-6)
    after = agents[0].state()["optim"].arrays
    assert all(np.array_equal(after[name], before[name]) for name in before if "adam" in name)


@pytest.mark.parametrize("count", [1, 3, 500, 20])
def test_any_number_of_environments_can_act(count):
    for engine, space in ENGINES_AND_SPACES:
        env = SPACES[space]
        agent = make(env=env, engine=engine)
        shape, dtype = action_layout(env)
        obs = observations(env, (count,), np.random.default_rng(0))
        mask = np.ones((count, env.action.n), np.bool_) if env.has_mask else None
        decision = Decision(np.zeros((count, *shape), dtype), np.full(count, np.nan, np.float32))
        agent.act(obs, mask, Counters(), decision)
        assert np.isfinite(decision.log_prob).all()


def test_sampled_and_greedy_actions_respect_the_mask(engine):
    env = spec(mask=True)
    agent = make(env=env, engine=engine)
    rng = np.random.default_rng(0)
    obs = observations(env, (500,), rng)
    mask = np.zeros((500, 3), np.bool_)
    mask[np.arange(500), rng.integers(0, 3, 500)] = True
    decision = Decision(np.zeros(500, np.int64), np.zeros(500, np.float32))
    agent.act(obs, mask, Counters(), decision)
    assert mask[np.arange(500), decision.action].all()
    assert decision.log_prob == pytest.approx(np.zeros(500), abs=1e-6)
    policy = StochasticPolicy(agent.config, env.obs, env.action, agent.state()["model"].arrays)
    assert mask[np.arange(500), policy.act(obs, mask)].all()


@pytest.mark.parametrize(("engine", "space"), ENGINES_AND_SPACES)
def test_a_saved_policy_takes_the_most_likely_actions_of_its_agent(engine, space):
    env = SPACES[space]
    agent = make(config(normalize_obs=True), env, engine=engine)
    learn(agent, env, 0)
    obs = observations(env, (30,), np.random.default_rng(3))
    policy = StochasticPolicy(agent.config, env.obs, env.action, agent.state()["model"].arrays)
    collect(agent, env)  # The agent starts to use the new statistics.
    with torch.no_grad():
        out = agent.model.network.policy(torch.from_numpy(obs))
    expected = agent.model.distribution.mode(out, None).numpy()
    assert policy.act(obs, None) == pytest.approx(expected, abs=1e-6)


@pytest.mark.parametrize("what", ["returns", "obs", "advantage", "old_log_prob"])
def test_three_non_finite_updates_stop_and_change_no_parameter(engine, what):
    agent, batch = with_advantages(config(normalize_advantage=False), engine=engine)
    good = parameters(agent)
    getattr(batch, what)[5] = np.nan
    agent.update(batch, Counters())
    agent.update(batch, Counters())
    assert np.array_equal(parameters(agent), good)
    assert agent.progress(Counters())["skipped_updates"] == 2
    with pytest.raises(DivergedError, match="3 updates in a row"):
        agent.update(batch, Counters())


@pytest.mark.parametrize(("engine", "preset", "space"), CASES)
def test_every_preset_overfits_one_batch(engine, preset, space):
    """Rewarded actions become likely, and values predict the returns."""
    env = SPACES[space]
    options = PPO_PRESETS[preset] | {"lr": 1e-2, "entropy_coef": 0.0, "max_grad_norm": 0.0}
    agent, batch = with_advantages(config(**options, clip_value=0.0), env, engine=engine)
    batch.advantage[...] = np.where(np.arange(48) % 2, 1.0, -1.0)
    agent.update(batch, Counters())
    before = agent.progress(Counters())
    for _ in range(150):
        agent.update(batch, Counters())
    agent.progress(Counters())
    agent.update(batch, Counters())
    after = agent.progress(Counters())
    assert after["value_loss"] < 0.5 * before["value_loss"]
    assert after["policy_loss"] < before["policy_loss"] - 0.05


def relative_distance(env, **compute):
    """Distance of the parameters from a plain agent's, relative to the distance moved."""
    plain, batch = with_advantages(env=env)
    other, _ = with_advantages(env=env, **compute)
    start = parameters(plain)
    for agent in (plain, other):
        for _ in range(10):
            agent.update(batch, Counters())
    apart = np.abs(parameters(plain) - parameters(other)).mean()
    return apart / np.abs(parameters(plain) - start).mean()


@pytest.mark.parametrize("space", ["masked", "planes", "continuous"])
def test_half_precision_learns_about_the_same(space):
    assert 0 < relative_distance(SPACES[space], amp=True) < 0.5


@pytest.mark.slow
@pytest.mark.parametrize("space", ["masked", "planes", "continuous"])
def test_compiled_networks_learn_the_same(space):
    assert relative_distance(SPACES[space], compile=True) < 0.01


@pytest.mark.parametrize("engine", ["torch", "fused"])
@pytest.mark.parametrize("threads", [1, 2])
@pytest.mark.parametrize("mask", [False, True])
def test_updates_on_indices_equal_updates_on_these_steps_alone(engine, threads, mask):
    """Sizes go up and down, because buffers are reused."""
    env = spec(mask=mask)
    among, alone = (make(config(), env, engine=engine, threads=threads) for _ in range(2))
    for agent in (among, alone):
        rollout = collect(agent, env, steps=40, num_envs=30)
        agent.compute_advantages([rollout], Counters())
    everything = minibatch(rollout, env, np.arange(40 * 30))
    rng = np.random.default_rng(0)
    for size in (7, 300, 1200, 64, 300, 1):
        chosen = rng.permutation(40 * 30)[:size]
        among.update(replace(everything, indices=chosen), Counters())
        alone.update(minibatch(rollout, env, chosen), Counters())
        assert np.array_equal(parameters(among), parameters(alone))
    for name in MINIBATCH_FIELDS:
        whole = getattr(everything, name)
        if whole is not None:
            found = getattr(replace(everything, indices=chosen).gathered(), name)
            np.testing.assert_array_equal(found, whole[chosen])
