"""SBX's PPO: Stable-Baselines3 in JAX.

Imported only when SBX is installed.
"""

from __future__ import annotations

import os
from typing import Any

from benchmarks.peers.ppo_sb3 import shared_arguments
from briskrl.algos.ppo.config import PPOConfig

# JAX reads this when it is imported: one thread, as on every side.
os.environ.setdefault(
    "XLA_FLAGS", "--xla_cpu_multi_thread_eigen=false intra_op_parallelism_threads=1"
)

import flax.linen as nn
from sbx import PPO


def build_ppo(env: Any, config: PPOConfig, seed: int) -> Any:
    """The peer's PPO with the network, loss, optimizer and schedule of `config`.

    It has no value clipping, and clips the gradients of policy and value network separately.
    """
    widths = list(config.net)
    return PPO(
        "MlpPolicy",
        env,
        policy_kwargs={
            "net_arch": {"pi": widths, "vf": widths},
            "activation_fn": {"tanh": nn.tanh, "relu": nn.relu}[config.activation],
            "optimizer_kwargs": {"eps": config.adam_eps},
        },
        **shared_arguments(config, seed) | {"clip_range_vf": None},
    )
