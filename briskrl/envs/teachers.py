"""Teachers: players that say what to do next in every running episode, for agents to learn from.

They look at the environments themselves rather than at what an agent sees of them, so an agent of
any observation can learn from them. A family offers them by `EnvFamily.teacher`.
"""

from __future__ import annotations

from typing import Protocol

from briskrl.core.errors import ConfigError, nearest
from briskrl.core.registry import load_object
from briskrl.core.types import Array
from briskrl.envs.base import VecEnv
from briskrl.envs.registry import ENVS


class Teacher(Protocol):
    """Demonstrates in the batch of environments that it was made for."""

    def actions(self) -> Array:
        """What to do next, (N,) or (N, D)."""
        ...


def check_teacher(env: str, name: str) -> None:
    """Say so if an environment has no teacher of this name.

    Raises:
        ConfigError: It has not.
    """
    known = ENVS.get(env).teachers
    if not known:
        raise ConfigError(f"The environment {env!r} has no teachers to pretrain from.")
    if name not in known:
        raise ConfigError(
            f"The environment {env!r} has no teacher {name!r}. {nearest(name, known)}"
        )


def make_teacher(family: str, name: str, env: VecEnv) -> Teacher:
    """A teacher for a batch of environments; planning may take a while.

    Raises:
        ConfigError: There is no such teacher.
    """
    check_teacher(family, name)
    found: Teacher = load_object(ENVS.get(family).teacher)(env, name)
    return found
