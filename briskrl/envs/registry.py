"""The table of environment families; looking at it imports no environment."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from briskrl.core.registry import Registry, load_object

if TYPE_CHECKING:
    from briskrl.core.types import Array
    from briskrl.envs.base import VecEnv


@dataclass(frozen=True, slots=True)
class Player:
    """A hand-written player: what learning has to beat."""

    actions: str
    """Address "module:function" of observations (N, *obs) -> actions (N,)."""
    needs: Mapping[str, object] = field(default_factory=dict)
    """Settings without which it cannot read the observations."""

    def load(self) -> Callable[[Array], Array]:
        """The function from observations to actions."""
        found: Callable[[Array], Array] = load_object(self.actions)
        return found


@dataclass(frozen=True, slots=True)
class EnvFamily:
    """What is known about a family before anything of it is imported."""

    name: str
    summary: str
    """One line for listings."""
    config: str
    """Address "module:Class" of the settings dataclass; importing it must be cheap."""
    factory: str
    """Address "module:function" of (num_envs, config, *, threads, hold_ended) -> VecEnv."""
    players: Mapping[str, Player] = field(default_factory=dict)
    """Hand-written players by name, the best first."""

    def load_config(self) -> type[Any]:
        """The settings dataclass."""
        found: type[Any] = load_object(self.config)
        return found

    def load_factory(self) -> Callable[..., VecEnv]:
        """The function that builds a batch."""
        found: Callable[..., VecEnv] = load_object(self.factory)
        return found


ENVS: Registry[EnvFamily] = Registry("env")
ENVS.add(
    "snake",
    EnvFamily(
        name="snake",
        summary="Snake on a walled board, compiled; features, reachable space or planes",
        config="briskrl.envs.snake.config:SnakeConfig",
        factory="briskrl.envs.snake.env:build",
        players={
            "heuristic": Player(
                "briskrl.envs.snake.heuristic:heuristic_actions",
                needs={"obs": "flood", "actions": "relative", "mirror": False},
            )
        },
    ),
)
