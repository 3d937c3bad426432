"""Worker processes with a `SaboteurEnv` among their environments, and what is left of them."""

from __future__ import annotations

import os
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from briskrl.core.errors import BriskError
from briskrl.core.types import StepBuffers
from briskrl.envs.gym.config import GymConfig
from briskrl.envs.gym.env_factory import EnvFactory
from briskrl.envs.gym.process import GymProcessEnv
from briskrl.envs.gym.workers.pool import GRACE_S
from tests.chaos import saboteur_env
from tests.envs.gym import slow_envs

NUM_ENVS, WORKERS = 8, 2
TIMEOUT_S = 0.5
"""Time without progress after which an environment counts as stuck."""
TOKEN = "BRISK_CHAOS_TOKEN"
"""Environment variable by which processes started by a test are found."""


@dataclass(frozen=True)
class Sabotage:
    """What fails, where and when; see SaboteurEnv."""

    fault: str
    place: str
    who: int
    at: int
    slow: int = -1
    slow_s: float = 0.0

    def settings(self, folder: Path, policy: str) -> GymConfig:
        arguments = {
            "fault": self.fault,
            "place": self.place,
            "who": self.who,
            "at": self.at,
            "folder": str(folder),
            "slow": self.slow,
            "slow_s": self.slow_s,
        }
        return GymConfig(
            workers=WORKERS,
            packages=(saboteur_env.PACKAGE,),
            on_env_error=policy,  # type: ignore[arg-type]
            env_timeout=TIMEOUT_S if self.fault == "hang" else 30.0,
            env_args=arguments,
        )

    def limit_s(self) -> float:
        """How long the trainer may take to notice.

        Environments that cannot be made are closed before the exception reaches the caller.
        """
        deadline = TIMEOUT_S if self.fault == "hang" else 0.0
        return 1.0 + deadline + (GRACE_S if self.place == "constructor" else 0.0)


@contextmanager
def opened(sabotage: Sabotage, folder: Path, policy: str) -> Iterator[GymProcessEnv]:
    """The environments, closed at the end."""
    folder.mkdir(parents=True)
    config = sabotage.settings(folder, policy)
    spec = EnvFactory(slow_envs.WALK_ID, GymConfig(packages=(slow_envs.PACKAGE,))).spec()
    env = GymProcessEnv(EnvFactory(saboteur_env.ID, config), NUM_ENVS, config, spec)
    try:
        yield env
    finally:
        env.close()


def play(env: GymProcessEnv, steps: int) -> None:
    """Begin episodes and step all environments."""
    out = StepBuffers.allocate(env.env_spec, NUM_ENVS)
    env.start(0, out)
    for _ in range(steps):
        env.step_into(np.ones(NUM_ENVS, np.int64), out)


def seconds_to_notice(sabotage: Sabotage, folder: Path, steps: int) -> tuple[float, BriskError]:
    """Seconds from the fault to the exception in the trainer, and the exception."""
    try:
        with opened(sabotage, folder, "stop") as env:
            try:
                play(env, steps)
            except BriskError as error:
                return time.monotonic() - moment(folder), error
    except BriskError as error:
        # Made here already: the constructor of the environments stops the workers first.
        return time.monotonic() - moment(folder), error
    raise AssertionError(f"{sabotage} went unnoticed")


def moment(folder: Path) -> float:
    """When the fault happened."""
    return float((folder / "moment").read_text())


def processes_with(token: str) -> list[int]:
    """Process ids of all processes that were started with this token, zombies excluded."""
    entry = f"{TOKEN}={token}".encode()
    found = []
    for name in os.listdir("/proc"):
        try:
            if name.isdigit() and entry in Path(f"/proc/{name}/environ").read_bytes().split(b"\0"):
                found.append(int(name))
        except OSError:
            continue
    return found


def alive(pid: int) -> bool:
    """Whether a process runs; a zombie does not."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] not in "ZX"
    except (FileNotFoundError, ProcessLookupError):
        return False
