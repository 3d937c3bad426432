"""Agents, rollouts and minibatches for the tests of on-policy learning."""

from __future__ import annotations

import numpy as np
import torch

from briskrl.algos.ppo.agent import PPO
from briskrl.algos.ppo.config import PPOConfig
from briskrl.core.counters import Counters
from briskrl.core.rng import Streams
from briskrl.core.spec import ArraySpec, BoxSpec, DiscreteSpec, EnvSpec, MultiDiscreteSpec
from briskrl.core.types import Decision, Minibatch, Rollout, action_layout
from briskrl.nets.compute import Compute

ACTIONS = {
    "discrete": DiscreteSpec(3),
    "several": MultiDiscreteSpec((2, 4)),
    "continuous": BoxSpec((2,), -1.0, 1.0),
}


def spec(action="discrete", *, shape=(5,), dtype=np.float32, mask=False) -> EnvSpec:
    return EnvSpec(
        obs=ArraySpec.of(shape, dtype, 0, 1),
        action=ACTIONS[action],
        max_steps=None,
        has_mask=mask,
        exact_state=True,
    )


def config(**options) -> PPOConfig:
    return PPOConfig(**({"net": (16, 8), "channels": (4,), "lr": 1e-3} | options))


def make(settings=None, env=None, seed=0, **compute) -> PPO:
    return PPO(
        settings or config(), env or spec(), Streams(seed), Compute(torch.device("cpu"), **compute)
    )


def observations(env: EnvSpec, lead: tuple[int, ...], rng: np.random.Generator) -> np.ndarray:
    if env.obs.dtype == np.uint8:
        return rng.integers(0, 256, (*lead, *env.obs.shape)).astype(np.uint8)
    return (3 + rng.standard_normal((*lead, *env.obs.shape))).astype(env.obs.dtype)


def collect(agent: PPO, env: EnvSpec, *, steps=8, num_envs=6, seed=0) -> Rollout:
    """A rollout of random observations, rewards and ends that the agent itself acted in."""
    rng = np.random.default_rng(seed)
    lead = (steps + 1, num_envs)
    shape, dtype = action_layout(env)
    old_log_prob, weight, value, advantage, returns, behavior_log_prob = np.full(
        (6, *lead), np.nan, np.float32
    )
    mask = None
    if env.has_mask:
        mask = rng.random((*lead, env.action.n)) < 0.5
    rollout = Rollout(
        obs=observations(env, lead, rng),
        action=np.zeros((*lead, *shape), dtype),
        behavior_log_prob=behavior_log_prob,
        reward=rng.standard_normal(lead).astype(np.float32),
        terminated=rng.random(lead) < 0.1,
        truncated=rng.random(lead) < 0.15,
        final_obs=observations(env, lead, rng),
        mask=mask,
        old_log_prob=old_log_prob,
        weight=weight,
        value=value,
        advantage=advantage,
        returns=returns,
    )
    for t in range(steps):
        row_mask = None if mask is None else mask[t]
        decision = Decision(rollout.action[t], rollout.behavior_log_prob[t])
        agent.act(rollout.obs[t], row_mask, Counters(), decision)
    return rollout


def minibatch(rollout: Rollout, env: EnvSpec, indices) -> Minibatch:
    """Steps of a rollout by their flat indices t * N + n."""
    batch = Minibatch.allocate(env, len(indices))
    for name in ("obs", "action", "old_log_prob", "weight", "value", "advantage", "returns"):
        source = getattr(rollout, name)
        getattr(batch, name)[...] = source.reshape(-1, *source.shape[2:])[indices]
    if rollout.mask is not None:
        batch.mask[...] = rollout.mask.reshape(-1, rollout.mask.shape[2])[indices]
    return batch


def with_advantages(settings=None, env=None, *, size=48, **options):
    """An agent, and a minibatch of a rollout it has collected, with advantages."""
    env = env or spec()
    agent = make(settings, env, **options)
    rollout = collect(agent, env)
    agent.compute_advantages([rollout], Counters())
    return agent, minibatch(rollout, env, np.random.default_rng(1).permutation(48)[:size])


def parameters(agent: PPO) -> np.ndarray:
    return agent.model.flat.values.numpy().copy()


def move(agent: PPO, scale=0.1, seed=5) -> None:
    """Change all parameters a little, so that the policy differs from the one that acted."""
    generator = torch.Generator().manual_seed(seed)
    values = agent.model.flat.values
    values += scale * torch.randn(len(values), generator=generator).to(values.dtype)
    agent.engines.now.refresh()
