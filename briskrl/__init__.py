"""Reinforcement-learning training at the speed the machine allows.

The names below are the public interface; each is imported on first use, so that `import briskrl` is
instant and pulls in neither torch nor numba.
"""

from __future__ import annotations

import sys
from importlib import import_module
from typing import TYPE_CHECKING, Any

from briskrl.envs.announce import announce as _announce

if TYPE_CHECKING:
    from briskrl.algos.dqn.config import DQNConfig as DQNConfig
    from briskrl.algos.ppo.config import PPOConfig as PPOConfig
    from briskrl.envs.gym.config import GymConfig as GymConfig
    from briskrl.envs.make import make_env as make_env
    from briskrl.envs.snake.config import SnakeConfig as SnakeConfig
    from briskrl.training.config import Stage as Stage
    from briskrl.training.config import TrainConfig as TrainConfig
    from briskrl.training.evaluate import evaluate as evaluate
    from briskrl.training.evaluate import load_policy as load_policy
    from briskrl.training.loop import resume as resume
    from briskrl.training.loop import train as train

__version__ = "0.1.0"

_ADDRESSES = {
    "DQNConfig": "briskrl.algos.dqn.config",
    "GymConfig": "briskrl.envs.gym.config",
    "PPOConfig": "briskrl.algos.ppo.config",
    "SnakeConfig": "briskrl.envs.snake.config",
    "Stage": "briskrl.training.config",
    "TrainConfig": "briskrl.training.config",
    "evaluate": "briskrl.training.evaluate",
    "load_policy": "briskrl.training.evaluate",
    "make_env": "briskrl.envs.make",
    "resume": "briskrl.training.loop",
    "train": "briskrl.training.loop",
}

__all__ = [
    "DQNConfig",
    "GymConfig",
    "PPOConfig",
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


_announce()


def __getattr__(name: str) -> Any:
    if name not in _ADDRESSES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value = getattr(import_module(_ADDRESSES[name]), name)
    setattr(sys.modules[__name__], name, value)
    return value


def __dir__() -> list[str]:
    return __all__
