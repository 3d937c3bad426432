"""Held-out set of faults: other loops and other mechanisms, chosen without the doctor.

Fixed before the doctor examined any of these loops:

- each fault makes its loop at least 1.3 times as slow as the loop without it, measured in turns on
  a two-core machine; for a history that grows, over its first ten seconds;
- two kinds are exceptions: the leak keeps at least 4.5 MB per second, 16 GB within an hour; the
  slow start takes at least 1.5 seconds more than the healthy loop;
- the correct causes follow from their definitions in docs/background/doctor-methods.md.
"""

from __future__ import annotations

from functools import partial

from briskrl.algos.ppo.config import PPOConfig
from briskrl.bench.snake_dqn import snake_dqn
from briskrl.envs.gym.config import GymConfig
from briskrl.fused.calibration.timing import torch_threads
from briskrl.training.config import TrainConfig
from tests.doctor.planted.cartpole_dqn import CartPoleDQN
from tests.doctor.planted.envs import PACKAGE
from tests.doctor.planted.fault import Fault
from tests.doctor.planted.numpy_a2c import NumpyA2C
from tests.doctor.planted.runtime_faults import console

UNEVEN = TrainConfig(
    env="gym:brisk-loading-v0",
    algo="double-dqn",
    num_envs=12,
    env_config=GymConfig(backend="process", workers=12, packages=(PACKAGE,)),
    algo_config=snake_dqn(batch_size=64, buffer_size=8192, learning_starts=128),
)
"""DQN on environments that load levels, with one synchronous worker each."""

TINY = TrainConfig(
    env="cartpole",
    algo="ppo",
    num_envs=64,
    algo_config=PPOConfig(minibatch_size=8, net=(256, 256)),
)
"""PPO on the compiled CartPole with 256 updates per pass over a rollout of 2048 steps."""


def _dqn(name: str, cause: str, fault: str) -> Fault:
    return Fault(name, (cause,), partial(CartPoleDQN, fault=fault), fixed=CartPoleDQN)


def _a2c(name: str, cause: str, fault: str) -> Fault:
    return Fault(name, (cause,), partial(NumpyA2C, fault=fault), fixed=NumpyA2C)


HELDOUT = (
    _dqn("push into a deque", "store", "push"),
    Fault(
        "updates by a while loop",
        ("updates",),
        partial(CartPoleDQN, fault="updates"),
        fixed=partial(CartPoleDQN, ratio=1.0),
    ),
    _dqn("rays in plain Python", "env", "lidar"),
    Fault("levels that load", ("uneven-env",), UNEVEN),
    _a2c("results synced per episode", "write-per-episode", "results"),
    Fault(
        "a log line per step",
        ("write-per-step", "console"),
        partial(NumpyA2C, fault="lines"),
        fixed=NumpyA2C,
        around=console,
    ),
    Fault(
        "8 threads",
        ("threads",),
        partial(NumpyA2C, width=256),
        around=lambda folder: torch_threads(8),
    ),
    _a2c("graphs kept", "leak", "graphs"),
    _dqn("episodes scanned", "growth", "history"),
    _a2c("compiled at first call", "cold-start", "compile"),
    Fault("minibatches of 8", ("small-batch",), TINY),
    _a2c("moments stuck", "denormals", "moments"),
)
"""Twelve slowdowns with their correct causes."""

HELDOUT_HEALTHY = (
    Fault("DQN by hand", ("env",), CartPoleDQN),
    Fault("actor-critic by hand", (), NumpyA2C),
    Fault("PPO of briskrl", ("threads",), TrainConfig(env="cartpole", algo="ppo")),
)
"""Healthy loops. Gymnasium environments take a large part of the first, and the last leaves a
second core idle if there is one."""
