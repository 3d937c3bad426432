"""The table of environment families; looking at it imports no environment."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from importlib import import_module
from typing import TYPE_CHECKING, Any

from briskrl.core.registry import Registry

if TYPE_CHECKING:
    from briskrl.envs.base import VecEnv


@dataclass(frozen=True, slots=True)
class EnvFamily:
    """What is known about a family before anything of it is imported."""

    name: str
    summary: str
    """One line for listings."""
    config: str
    """Address "module:Class" of the settings dataclass; importing it must be cheap."""
    factory: str
    """Address "module:function" of (num_envs, config, threads) -> VecEnv."""

    def load_config(self) -> type[Any]:
        """The settings dataclass."""
        found: type[Any] = _load(self.config)
        return found

    def load_factory(self) -> Callable[[int, Any, int], VecEnv]:
        """The function that builds a batch."""
        found: Callable[[int, Any, int], VecEnv] = _load(self.factory)
        return found


def _load(address: str) -> Any:
    module, _, attribute = address.partition(":")
    return getattr(import_module(module), attribute)


ENVS: Registry[EnvFamily] = Registry("env")
ENVS.add(
    "snake",
    EnvFamily(
        name="snake",
        summary="Snake on a walled board, compiled; features, reachable space or planes",
        config="briskrl.envs.snake.config:SnakeConfig",
        factory="briskrl.envs.snake.env:build",
    ),
)
