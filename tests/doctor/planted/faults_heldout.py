"""A second set of planted faults, in other loops, by other mechanisms, set without the doctor.

What was settled before the doctor saw any of these loops, and how:

- each fault makes its loop at least 1.3 times as slow as the loop without it, by a stopwatch and in
  turns, on the two-core machine where this was written; for a history that grows, over its first
  ten seconds;
- two kinds cannot: the leak keeps at least 4.5 MB per second, 16 GB within an hour; the slow start
  takes at least 1.5 seconds that the other loop does not;
- which names are right follows from what docs/background/doctor-methods.md says that they mean.
"""

from __future__ import annotations

from functools import partial

from briskrl.algos.dqn.config import DQNConfig
from briskrl.algos.ppo.config import PPOConfig
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
    algo_config=DQNConfig(batch_size=64, buffer_size=8192, learning_starts=128),
)
"""DQN on environments that load levels, one worker each and all in step."""

TINY = TrainConfig(
    env="cartpole",
    algo="ppo",
    num_envs=64,
    algo_config=PPOConfig(minibatch_size=8, net=(256, 256)),
)
"""PPO on the compiled CartPole with 256 updates per pass over a rollout of 2048 steps."""


def _dqn(name: str, cause: str, fault: str) -> Fault:
    return Fault(name, (cause,), partial(CartPoleDQN, fault=fault), cured=CartPoleDQN)


def _a2c(name: str, cause: str, fault: str) -> Fault:
    return Fault(name, (cause,), partial(NumpyA2C, fault=fault), cured=NumpyA2C)


HELDOUT = (
    _dqn("push into a deque", "store", "push"),
    Fault(
        "updates by a while loop",
        ("updates",),
        partial(CartPoleDQN, fault="updates"),
        cured=partial(CartPoleDQN, ratio=1.0),
    ),
    _dqn("rays in plain Python", "env", "lidar"),
    Fault("levels that load", ("uneven-env",), UNEVEN),
    _a2c("results synced per episode", "write-per-episode", "results"),
    Fault(
        "a log line per step",
        ("write-per-step", "console"),
        partial(NumpyA2C, fault="lines"),
        cured=NumpyA2C,
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
"""Twelve slow-downs, each with the names that are right for it."""

HELDOUT_HEALTHY = (
    Fault("DQN by hand", ("env",), CartPoleDQN),
    Fault("actor-critic by hand", (), NumpyA2C),
    Fault("PPO of ours", ("threads",), TrainConfig(env="cartpole", algo="ppo")),
)
"""Loops without a fault. Gymnasium's environments take a large part of the first, and the last
leaves a second core idle where there is one."""
