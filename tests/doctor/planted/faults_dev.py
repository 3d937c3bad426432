"""Development set of faults: one hand-written loop, and configs of briskrl.

The strength of the faults and the thresholds of the doctor were chosen on this set.
"""

from __future__ import annotations

from functools import partial

from briskrl.bench.snake_dqn import snake_dqn
from briskrl.envs.gym.config import GymConfig
from briskrl.fused.calibration.timing import torch_threads
from briskrl.training.config import TrainConfig
from tests.doctor.planted.envs import PACKAGE
from tests.doctor.planted.fault import Fault
from tests.doctor.planted.runtime_faults import console
from tests.doctor.planted.sample_loop import SampleLoop


def _gym(backend: str, num_envs: int = 8, **env: float) -> TrainConfig:
    """DQN on the stepping environment."""
    settings = GymConfig(backend=backend, env_args=env, packages=(PACKAGE,))  # type: ignore[arg-type]
    learning = snake_dqn(batch_size=32, buffer_size=4096, learning_starts=64)
    return TrainConfig(
        env="gym:brisk-stepping-v0",
        num_envs=num_envs,
        env_config=settings,
        algo_config=learning,
    )


def _sample_loop(fault: str, *causes: str) -> Fault:
    return Fault(fault, causes or (fault,), partial(SampleLoop, fault=fault), fixed=SampleLoop)


DEV = (
    _sample_loop("store"),
    _sample_loop("denormals"),
    _sample_loop("cold-start"),
    _sample_loop("growth"),
    _sample_loop("leak"),
    _sample_loop("flush", "write-per-episode"),
    Fault(
        "print",
        ("write-per-step", "console"),
        partial(SampleLoop, fault="print"),
        fixed=SampleLoop,
        around=console,
    ),
    Fault(
        "oversubscribed",
        ("threads",),
        partial(SampleLoop, width=512),
        around=lambda folder: torch_threads(16),
    ),
    Fault("many updates", ("updates",), TrainConfig(algo_config=snake_dqn(train_steps_ratio=2.0))),
    Fault(
        "tiny batches",
        ("small-batch",),
        TrainConfig(algo_config=snake_dqn(batch_size=4, net=(512, 512))),
    ),
    Fault("slow env", ("env",), _gym("sync", busy_s=2e-3)),
    Fault("uneven env", ("uneven-env",), _gym("process", num_envs=16, sleep_s=2e-3)),
)
"""Twelve slow-downs, each with the names that are right for it."""

DEV_HEALTHY = (Fault("clean", (), SampleLoop),)
"""The hand-written loop without a fault."""
