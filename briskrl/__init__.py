"""Reinforcement-learning training at the speed the machine allows.

The names below are the public interface; each is imported on first use, so that `import briskrl` is
instant and pulls in neither torch nor numba.
"""

from __future__ import annotations

import sys
from importlib import import_module
from types import ModuleType
from typing import TYPE_CHECKING, Any

import briskrl.train as _train_package
from briskrl.envs.announce import announce as _announce

if TYPE_CHECKING:
    from briskrl.algos.config import DQNConfig as DQNConfig
    from briskrl.algos.config import OnPolicyConfig as OnPolicyConfig
    from briskrl.envs.gym.config import GymConfig as GymConfig
    from briskrl.envs.make import make_env as make_env
    from briskrl.envs.snake.config import SnakeConfig as SnakeConfig
    from briskrl.train.config import Stage as Stage
    from briskrl.train.config import TrainConfig as TrainConfig
    from briskrl.train.evaluate import evaluate as evaluate
    from briskrl.train.evaluate import load_policy as load_policy
    from briskrl.train.loop import resume as resume
    from briskrl.train.loop import train as train

__version__ = "0.1.0"

_ADDRESSES = {
    "DQNConfig": "briskrl.algos.config",
    "GymConfig": "briskrl.envs.gym.config",
    "OnPolicyConfig": "briskrl.algos.config",
    "SnakeConfig": "briskrl.envs.snake.config",
    "Stage": "briskrl.train.config",
    "TrainConfig": "briskrl.train.config",
    "evaluate": "briskrl.train.evaluate",
    "load_policy": "briskrl.train.evaluate",
    "make_env": "briskrl.envs.make",
    "resume": "briskrl.train.loop",
}

__all__ = [
    "DQNConfig",
    "GymConfig",
    "OnPolicyConfig",
    "SnakeConfig",
    "Stage",
    "TrainConfig",
    "__version__",
    "evaluate",
    "load_policy",
    "make_env",
    "resume",
    "train",
]


class _TrainPackage(ModuleType):
    """The package `briskrl.train`, callable as the function of the same name that it holds."""

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        return import_module("briskrl.train.loop").train(*args, **kwargs)


# Importing any part of `briskrl.train` binds that name here to the package; being callable, the
# package keeps `briskrl.train(config)` true in whatever order things are imported.
_train_package.__class__ = _TrainPackage

_announce()


def __getattr__(name: str) -> Any:
    if name not in _ADDRESSES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value = getattr(import_module(_ADDRESSES[name]), name)
    setattr(sys.modules[__name__], name, value)
    return value


def __dir__() -> list[str]:
    return __all__
