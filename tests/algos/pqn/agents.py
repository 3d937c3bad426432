"""PQN agents and rollouts for tests."""

from __future__ import annotations

import numpy as np
import torch

from briskrl.algos.pqn.agent import PQN
from briskrl.algos.pqn.config import PQNConfig
from briskrl.core.counters import Counters
from briskrl.core.rng import Streams
from briskrl.core.types import Minibatch, Rollout
from briskrl.nets.compute import Compute
from tests.algos import rollouts
from tests.algos.rollouts import spec


def config(**options) -> PQNConfig:
    plain = {"normalize_obs": False, "normalize_reward": False}
    return PQNConfig(**({"net": (16, 8), "channels": (4,), "lr": 1e-3} | plain | options))


def make(settings=None, env=None, seed=0, **compute) -> PQN:
    compute = {"engine": "torch"} | compute
    return PQN(
        settings or config(), env or spec(), Streams(seed), Compute(torch.device("cpu"), **compute)
    )


def collect(agent: PQN, env, **options) -> Rollout:
    rollout = rollouts.collect(agent, env, **options)
    if env.has_mask:
        rng = np.random.default_rng(9)
        rollout.final_mask = rng.random(rollout.mask.shape) < 0.5
    return rollout


def random_minibatch(env, size: int, seed: int = 0) -> Minibatch:
    rng = np.random.default_rng(seed)
    batch = Minibatch.allocate(env, size)
    batch.obs[...] = rollouts.observations(env, (size,), rng)
    batch.action[...] = rng.integers(0, env.action.n, size)
    batch.returns[...] = rng.standard_normal(size)
    return batch


def update(agent: PQN, batch: Minibatch) -> None:
    agent.update(batch, Counters(total_steps=100))


def q_values(agent: PQN, obs) -> np.ndarray:
    with torch.no_grad():
        return agent.model.network(torch.from_numpy(np.ascontiguousarray(obs))).numpy()
