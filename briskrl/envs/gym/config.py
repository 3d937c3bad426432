"""Settings of Gymnasium environments, as data; imports nothing heavy."""

from __future__ import annotations

import math
from dataclasses import dataclass, field, replace
from typing import Annotated, Any, ClassVar, Literal

from msgspec import Meta


@dataclass(frozen=True, slots=True)
class GymConfig:
    """How environments of Gymnasium are made, and by how many processes they are stepped."""

    ALIASES: ClassVar[dict[str, str]] = {"import": "packages"}

    backend: Literal["auto", "compiled", "sync", "process", "async", "vector"] = "auto"
    """Stepped here one by one (sync), or by workers in step (process) or not (async); auto measures
    these. compiled takes our version that is equal to the bit (CartPole has one); auto prefers it.
    vector takes the environment's own version that steps all in one call, where there is one: but
    random numbers are shared by all and a resume is not bit-exact."""
    workers: Annotated[int, Meta(ge=0, le=1024)] = 0
    """Worker processes; 0 means one per core, for async 16 or more."""
    min_ready: Annotated[int, Meta(ge=0)] = 0
    """Environments that must be ready before the async backend goes on; 0 means half of them."""
    env_timeout: Annotated[float, Meta(gt=0)] = 60.0
    """Seconds after which an environment in a worker counts as stuck."""
    on_env_error: Literal["stop", "respawn"] = "stop"
    """If an environment in a worker fails: stop, or cut its episode off and make it anew."""
    max_steps: Annotated[int, Meta(ge=1)] | None = None
    """Steps after which an episode is cut off, instead of the limit it is registered with."""
    joint_actions: bool = False
    """Offer a MultiDiscrete action as one choice among all combinations."""
    env_args: dict[str, Any] = field(default_factory=dict)
    """Keyword arguments for gymnasium.make: JSON, or key=value pairs with commas between them."""
    packages: tuple[str, ...] = ()
    """Packages to import first because they register environments."""

    def for_evaluation(self) -> GymConfig:
        """These settings with a backend whose every game depends on its own seed alone."""
        if self.backend == "vector":
            return replace(self, backend="sync")
        return replace(self, backend="process", min_ready=0) if self.backend == "async" else self

    def check(self) -> list[str]:
        """Combinations that cannot work, one sentence each."""
        wrong = []
        for key in ("render_mode", "max_episode_steps", "disable_env_checker", "id"):
            if key in self.env_args:
                instead = " Use max_steps." if key == "max_episode_steps" else ""
                wrong.append(f"env_args cannot hold {key!r}: it is set by the trainer.{instead}")
        wrong += [
            f"env_args.{key} = {value!r} is no JSON value that a TOML file can hold."
            for key, value in self.env_args.items()
            if not _is_plain(value)
        ]
        wrong += [
            f"packages names {name!r}, which cannot be the name of a Python package."
            for name in self.packages
            if not all(part.isidentifier() for part in name.split("."))
        ]
        if self.min_ready and self.backend not in ("async", "auto"):
            wrong.append(f'min_ready is for the backend "async", not {self.backend!r}.')
        return wrong


def _is_plain(value: Any) -> bool:
    """Whether JSON and TOML can both hold a value; TOML has no null."""
    if isinstance(value, dict):
        return all(isinstance(key, str) and _is_plain(member) for key, member in value.items())
    if isinstance(value, list | tuple):
        return all(map(_is_plain, value))
    if isinstance(value, float):
        return math.isfinite(value)
    return isinstance(value, bool | int | str)
