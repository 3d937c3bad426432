"""Whether there is a compiled version for a recipe that may be used; imports nothing heavy if not.

Only where the table of stand-ins has the recipe's entry point is anything compiled or played.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from importlib import import_module
from typing import Any

from briskrl.core.errors import ConfigError
from briskrl.core.spec import EnvSpec
from briskrl.envs.gym.compiled.registry import StandIn, find
from briskrl.envs.gym.env_factory import EnvRecipe


@dataclass(frozen=True, slots=True)
class Offer:
    """A compiled version, or why there is none."""

    stand_in: StandIn | None = None
    """None if none may be used."""
    refused: str = ""
    """Why the one that there is may not be used, as a clause; empty if there is none at all."""
    tried: int = 0
    """Steps in which it was equal."""


def offer(recipe: EnvRecipe) -> Offer:
    """The compiled version of what a recipe makes, if it is equal to it."""
    found = find(recipe)
    if found is None:
        return Offer()
    proof: Any = import_module("briskrl.envs.gym.compiled.equivalence")
    refused = proof.difference(recipe, _exact(recipe.spec()), found)
    return Offer(refused=refused) if refused else Offer(found, tried=proof.TRIED)


def make_compiled(recipe: EnvRecipe, num_envs: int, spec: EnvSpec, *, threads: int = 1) -> Any:
    """N compiled environments of a recipe.

    Raises:
        ConfigError: There is no compiled version that is equal; the message says why.
    """
    found = offer(recipe)
    if found.stand_in is None:
        why = found.refused or "none has been written"
        raise ConfigError(
            f"gym:{recipe.id} has no compiled version that may be used: {why}. "
            "Use --backend sync, process or async, or leave it to auto."
        )
    env: Any = import_module("briskrl.envs.gym.compiled.env")
    return env.GymCompiledEnv(recipe, num_envs, _exact(spec), found.stand_in, threads=threads)


def _exact(spec: EnvSpec) -> EnvSpec:
    """The spec with a state that can be trusted: a recipe cannot tell while its machine is busy."""
    return replace(spec, exact_state=True)
