"""The data of a trained policy, and its adaptation to environments of another size."""

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
    """Everything a policy is built from."""

    config: Any
    """Settings of the algorithm."""
    obs: ArraySpec
    action: ActionSpec
    arrays: dict[str, Array]
    """Parameters by name."""
    normalizes_obs: bool = False
    """Whether `arrays` hold statistics of observations, which are tied to their shape."""

    def fits(self, spec: EnvSpec) -> bool:
        """Whether the policy fits environments of `spec` without changes."""
        return (self.obs.shape, self.action) == (spec.obs.shape, spec.action)

    def refitted(
        self,
        build: Callable[[Any, ArraySpec, ActionSpec, dict[str, Array]], P],
        spec: EnvSpec,
    ) -> P:
        """The policy rebuilt for environments of another size.

        Raises:
            ConfigError: The network would have other parameters there.
        """
        before = f"{self.obs.shape} and {_describe_actions(self.action)}"
        now = f"{spec.obs.shape} and {_describe_actions(spec.action)}"
        problem = (
            f"This policy was trained on observations {before}, but this environment has {now}. "
            "Only networks with one output per cell (--body fcn) work on boards of any size"
        )
        if self.normalizes_obs and self.obs.shape != spec.obs.shape:
            raise ConfigError(f"{problem}, and only without --normalize-obs.")
        try:
            return build(self.config, spec.obs, spec.action, self.arrays)
        except (ConfigError, ValueError) as error:
            raise ConfigError(f"{problem}: {error}") from error


def _describe_actions(action: ActionSpec) -> str:
    if isinstance(action, DiscreteSpec):
        return f"{action.n} actions"
    if isinstance(action, BoxSpec):
        return f"actions of shape {action.shape}"
    if isinstance(action, SubsetSpec):
        return f"{action.k} of {action.n} actions"
    return f"actions {list(action.nvec)}"
