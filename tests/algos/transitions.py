"""DQN agents and batches of transitions for tests."""

from __future__ import annotations

import numpy as np
import torch

from briskrl.algos.dqn.agent import DQN
from briskrl.algos.dqn.config import DQNConfig
from briskrl.core.rng import Streams
from briskrl.core.spec import ArraySpec, DiscreteSpec, EnvSpec
from briskrl.core.types import Batch
from briskrl.nets.compute import Compute

ACTIONS = 3


def spec(*, shape=(5,), dtype=np.float32, mask=False) -> EnvSpec:
    return EnvSpec(
        obs=ArraySpec.of(shape, dtype, 0, 1),
        action=DiscreteSpec(ACTIONS),
        max_steps=None,
        has_mask=mask,
        exact_state=True,
    )


def make(config: DQNConfig, env: EnvSpec | None = None, seed: int = 0, **compute) -> DQN:
    return DQN(config, env or spec(), Streams(seed), Compute(torch.device("cpu"), **compute))


PLAIN = {
    "update_every": 1,
    "epsilon_end": 0.01,
    "epsilon_steps": 200_000,
    "lr_schedule": "constant",
    "gamma": 0.97,
    "n_step": 1,
    "target_every": 500,
    "tau": 1.0,
    "layer_norm": False,
    "target_noise": True,
}
"""DQN without what its general defaults add."""
SMALL = {"net": (16,), "batch_size": 8, "lr": 5e-4, "v_min": -5.0, "v_max": 5.0}


def small(**options) -> DQNConfig:
    return DQNConfig(**(PLAIN | SMALL | options))


def random_batch(env: EnvSpec, updates: int, batch_size: int = 8, seed: int = 0) -> Batch:
    """Random transitions: terminated or not, masked or not, of any weight."""
    rng = np.random.default_rng(seed)
    batch = Batch.allocate(env, updates, batch_size)
    high = 256 if env.obs.dtype == np.uint8 else 1
    batch.obs[...] = rng.random(batch.obs.shape) * high
    batch.next_obs[...] = rng.random(batch.next_obs.shape) * high
    batch.action[...] = rng.integers(0, env.action.n, batch.action.shape)
    batch.reward[...] = rng.standard_normal(batch.reward.shape)
    batch.discount[...] = 0.9 * (rng.random(batch.discount.shape) < 0.8)
    batch.weight[...] = rng.random(batch.weight.shape)
    if batch.next_mask is not None:
        batch.next_mask[...] = rng.random(batch.next_mask.shape) < 0.5
    return batch


def parameters(algo: DQN) -> np.ndarray:
    return algo.model.online_flat.values.numpy().copy()


def forward(network, obs) -> np.ndarray:
    with torch.no_grad():
        return network(torch.from_numpy(np.ascontiguousarray(obs))).numpy()


def move_target(algo: DQN, scale: float = 0.3, seed: int = 7) -> None:
    """Change the target network, so that it differs from the online network."""
    values = algo.model.target_flat.values
    noise = torch.randn(len(values), generator=torch.Generator().manual_seed(seed))
    values += scale * noise.to(values.dtype)
    algo.engines.now.refresh()
