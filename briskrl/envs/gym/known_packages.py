"""Packages that are known to register environments, so that their ids work without --import."""

from __future__ import annotations

import difflib
from dataclasses import dataclass
from importlib import import_module
from importlib.util import find_spec

import gymnasium


@dataclass(frozen=True, slots=True)
class KnownPackage:
    """A package that registers environments."""

    pip: str
    """Its name for pip."""
    module: str
    """What to import."""
    function: str = ""
    """A function of the module to call then."""


_MINIGRID = KnownPackage("minigrid", "minigrid")
KNOWN_PACKAGES = {
    "ALE/": KnownPackage("ale-py", "ale_py"),
    "MiniGrid-": _MINIGRID,
    "BabyAI-": _MINIGRID,
    "MinAtar/": KnownPackage("minatar", "minatar.gym", "register_envs"),
}
"""Packages by how the ids that they register begin."""


def import_known_package(name: str) -> None:
    """Import the package that registers an id, if it is known and installed."""
    package = _package_of(name)
    if package is not None and _is_installed(package):
        module = import_module(package.module)
        if package.function:
            getattr(module, package.function)()


def describe_unknown_id(name: str) -> str:
    """The error message for an id that is not registered."""
    message = f"Gymnasium has no environment {name!r}."
    package = _package_of(name)
    if package is not None and not _is_installed(package):
        return f"{message} It comes with another package: pip install {package.pip}"
    close = difflib.get_close_matches(name, gymnasium.registry, n=3, cutoff=0.5)
    if close:
        message += " Did you mean " + " or ".join(f"gym:{match}" for match in close) + "?"
    return (
        f"{message} Environments of other packages need --import PACKAGE, those of a file of your "
        "own --env-file FILE.py."
    )


def _package_of(name: str) -> KnownPackage | None:
    return next((known for start, known in KNOWN_PACKAGES.items() if name.startswith(start)), None)


def _is_installed(package: KnownPackage) -> bool:
    return find_spec(package.module.partition(".")[0]) is not None
