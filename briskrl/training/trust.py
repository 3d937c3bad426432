"""Settings that run code: those that name Python modules to import, and who may set them.

Everything else in a run folder or a config file is data. A module is imported, which runs its code,
so a file that somebody else can write needs the user's consent to name one.
"""

from __future__ import annotations

import os
from collections.abc import Collection, Iterable
from pathlib import Path
from typing import Protocol, runtime_checkable

from briskrl.core.errors import ConfigError
from briskrl.core.ownership import why_foreign
from briskrl.training.config import TrainConfig
from briskrl.training.resolve import stage_env_config


class UntrustedError(ConfigError):
    """Files that others can change name modules to import."""


@runtime_checkable
class ImportsModules(Protocol):
    """An environment config that can name modules to import."""

    def modules(self, env: str) -> tuple[str, ...]:
        """The modules that are imported for the environment `env`, as in gym:module:Id."""
        ...


@runtime_checkable
class AlgoImportsModules(Protocol):
    """An algorithm config that can name modules to import."""

    def modules(self) -> tuple[str, ...]:
        """The modules that are imported for these settings."""
        ...


def modules_of(env: str, env_config: object) -> tuple[str, ...]:
    """The modules that an environment with these settings imports by name."""
    return env_config.modules(env) if isinstance(env_config, ImportsModules) else ()


def modules_of_run(config: TrainConfig) -> tuple[str, ...]:
    """The modules that a run imports by name, in any stage of its curriculum."""
    stages = [None, *config.curriculum]
    found = [modules_of(config.env, stage_env_config(config.env_config, s)) for s in stages]
    return tuple(
        dict.fromkeys(
            module
            for modules in (*found, modules_of_algo(config.algo_config))
            for module in modules
        )
    )


def modules_of_algo(algo_config: object) -> tuple[str, ...]:
    """The modules that settings of an algorithm import by name."""
    return algo_config.modules() if isinstance(algo_config, AlgoImportsModules) else ()


def check_trusted(
    paths: Iterable[Path], modules: Collection[str], *, trust: bool, hint: str = ""
) -> None:
    """Check that files which name modules can be changed by this user only.

    Args:
        paths: The files and their folder.
        modules: The modules that they name.
        trust: Whether the user has consented.
        hint: Another way to consent, as a clause.

    Raises:
        UntrustedError: Others can change the files, and the user has not consented.
    """
    if trust or not modules:
        return
    # Files that are named by their path count as well.
    reason = why_foreign([*paths, *(Path(name) for name in modules if os.sep in name)])
    if reason is not None:
        raise UntrustedError(
            f"{reason}, and its settings import Python modules: {', '.join(modules)}. Importing "
            f"a module runs its code. If you trust it, add --trust{hint}; in Python, trust=True."
        )
