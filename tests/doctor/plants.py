"""Slow-downs planted in training loops, and what a doctor has to call each of them."""

from __future__ import annotations

import multiprocessing
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, closing, contextmanager, nullcontext
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import gymnasium
import numpy as np
import torch
from gymnasium import spaces

from briskrl.algos.config import DQNConfig
from briskrl.doctor import diagnose
from briskrl.doctor.examine import examine
from briskrl.doctor.report import Report
from briskrl.doctor.subject import TrainSubject
from briskrl.envs.gym.config import GymConfig
from briskrl.train.config import TrainConfig
from tests.doctor.victim import OBS, Victim

PACKAGE = "tests.doctor.plants"


@dataclass(frozen=True, slots=True)
class Plant:
    """One slow-down."""

    name: str
    causes: tuple[str, ...]
    """Names for it that are right."""
    victim: str = ""
    """The fault of the hand-written loop, if that has it."""
    subject: Callable[[], TrainSubject] | None = None
    """The training of ours, if that has it."""
    options: dict[str, int] = field(default_factory=dict)
    """Of the hand-written loop."""
    around: Callable[[Path], AbstractContextManager[None]] = lambda folder: nullcontext()
    """What surrounds the loop."""

    def examine(self, folder: Path, seconds: float) -> Report:
        """The report on the loop that has it."""
        with self.around(folder):
            if self.subject is not None:
                return examine(self.subject(), budget_s=seconds)
            return in_victim(self.victim, folder, seconds, **self.options)


class SteppingEnv(gymnasium.Env[np.ndarray, int]):
    """A walk whose steps compute for `busy_s`, or sleep, one in ten of them ten times as long."""

    def __init__(self, busy_s: float = 0.0, sleep_s: float = 0.0) -> None:
        self.observation_space = spaces.Box(-1.0, 1.0, (4,), np.float32)
        self.action_space = spaces.Discrete(2)
        self._busy_s, self._sleep_s = busy_s, sleep_s
        self._count = 0

    def reset(self, *, seed: int | None = None, options: Any = None) -> tuple[np.ndarray, dict]:
        super().reset(seed=seed)
        self._count = 0
        return np.zeros(4, np.float32), {}

    def step(self, action: int) -> tuple[np.ndarray, float, bool, bool, dict]:
        self._count += 1
        end = time.thread_time() + self._busy_s
        while time.thread_time() < end:
            pass
        if self._sleep_s:
            time.sleep(self._sleep_s * (10 if self.np_random.random() < 0.1 else 1))
        return np.full(4, self._count / 100, np.float32), 1.0, self._count >= 50, False, {}


gymnasium.register("brisk-stepping-v0", entry_point=SteppingEnv)


def in_victim(plant: str, folder: Path, seconds: float, **options: int) -> Report:
    """The report on the hand-written loop with a fault, or with none."""
    with closing(Victim(folder, plant, **options)) as victim:
        return diagnose(
            victim.iterate,
            victim.timer,
            num_envs=victim.num_envs,
            episodes=lambda: victim.episodes,
            obs_size=OBS,
            seconds=seconds,
            name=plant or "clean",
        )


@contextmanager
def printing(folder: Path) -> Iterator[None]:
    """A console that takes what is printed; if nobody did, printing would cost nothing."""
    before = sys.stdout
    with (folder / "console").open("w") as sys.stdout:
        try:
            yield
        finally:
            sys.stdout = before


@contextmanager
def torch_threads(count: int) -> Iterator[None]:
    """Torch with so many threads, for a while."""
    before = torch.get_num_threads()
    torch.set_num_threads(count)
    try:
        yield
    finally:
        torch.set_num_threads(before)


@contextmanager
def busy_core() -> Iterator[None]:
    """A process that keeps one core busy."""
    process = multiprocessing.get_context("spawn").Process(target=_spin, daemon=True)
    process.start()
    try:
        yield
    finally:
        process.kill()
        process.join()


def _spin() -> None:
    while True:
        pass


def gym_config(backend: str, num_envs: int = 8, **env: float) -> TrainConfig:
    """DQN on the stepping environment."""
    settings = GymConfig(backend=backend, env_args=env, packages=(PACKAGE,))  # type: ignore[arg-type]
    learning = DQNConfig(batch_size=32, buffer_size=4096, learning_starts=64)
    return TrainConfig(
        env="gym:brisk-stepping-v0",
        num_envs=num_envs,
        env_config=settings,
        algo_config=learning,
    )


def _victim(plant: str, *causes: str) -> Plant:
    return Plant(plant, causes or (plant,), victim=plant)


def _training(name: str, cause: str, config: TrainConfig) -> Plant:
    return Plant(name, (cause,), subject=lambda: TrainSubject(config))


PLANTS = (
    _victim("store"),
    _victim("denormals"),
    _victim("cold-start"),
    _victim("growth"),
    _victim("leak"),
    _victim("flush", "write-per-episode"),
    Plant("print", ("write-per-step", "console"), victim="print", around=printing),
    Plant(
        "oversubscribed",
        ("threads",),
        options={"width": 512},
        around=lambda folder: torch_threads(16),
    ),
    _training("many updates", "updates", TrainConfig(algo_config=DQNConfig(train_steps_ratio=2.0))),
    _training(
        "tiny batches",
        "small-batch",
        TrainConfig(algo_config=DQNConfig(batch_size=4, net=(512, 512))),
    ),
    _training("slow env", "env", gym_config("sync", busy_s=2e-3)),
    _training("uneven env", "uneven-env", gym_config("process", num_envs=16, sleep_s=2e-3)),
)
"""Twelve slow-downs, each with the names that are right for it."""
