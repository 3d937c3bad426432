"""Teachers: players whose actions an agent can be pretrained on.

They read the environments themselves, not observations, so they can teach agents with any
observation. A family declares them in `EnvFamily.teacher`.
"""

from __future__ import annotations

from typing import Protocol

from briskrl.core.errors import ConfigError, nearest
from briskrl.core.registry import load_object
from briskrl.core.types import Array
from briskrl.envs.base import VecEnv
from briskrl.envs.registry import ENVS


class Teacher(Protocol):
    """Plays in the batch of environments that it was made for."""

    def actions(self) -> Array:
        """The next actions, (N,) or (N, D)."""
        ...


def check_teacher(env: str, name: str) -> None:
    """Check that an environment has a teacher of this name.

    Raises:
        ConfigError: It has none.
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
