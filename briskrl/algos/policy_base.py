"""What a policy was trained with, and the same network in environments of another size."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, TypeVar

from briskrl.core.errors import ConfigError
from briskrl.core.spec import ActionSpec, ArraySpec, BoxSpec, DiscreteSpec, EnvSpec, SubsetSpec
from briskrl.core.types import Array

P = TypeVar("P")


@dataclass(frozen=True, slots=True)
class Trained:
    """All that a policy is built from."""

    config: Any
    """Settings of the algorithm."""
    obs: ArraySpec
    action: ActionSpec
    arrays: dict[str, Array]
    """Parameters by name."""

    def fits(self, spec: EnvSpec) -> bool:
        """Whether the policy can play there as it is."""
        return (self.obs.shape, self.action) == (spec.obs.shape, spec.action)

    def refitted(
        self,
        build: Callable[[Any, ArraySpec, ActionSpec, dict[str, Array]], P],
        spec: EnvSpec,
    ) -> P:
        """The policy for environments of another size.

        Raises:
            ConfigError: Its network has other parameters there.
        """
        before = f"{self.obs.shape} and {_told(self.action)}"
        now = f"{spec.obs.shape} and {_told(spec.action)}"
        problem = (
            f"This policy was trained on observations {before}, and here they are {now}. Networks "
            "with one output per cell (--body fcn) serve boards of any size, others do not"
        )
        if getattr(self.config, "normalize_obs", False) and self.obs.shape != spec.obs.shape:
            raise ConfigError(f"{problem}; nor do those with --normalize-obs.")
        try:
            return build(self.config, spec.obs, spec.action, self.arrays)
        except (ConfigError, ValueError) as error:
            raise ConfigError(f"{problem}: {error}") from error


def _told(action: ActionSpec) -> str:
    if isinstance(action, DiscreteSpec):
        return f"{action.n} actions"
    if isinstance(action, BoxSpec):
        return f"actions of shape {action.shape}"
    if isinstance(action, SubsetSpec):
        return f"{action.k} of {action.n} actions"
    return f"actions {list(action.nvec)}"
