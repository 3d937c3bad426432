"""Registries: names that refer to objects without importing them."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from importlib import import_module
from importlib.metadata import entry_points
from pathlib import Path
from types import ModuleType
from typing import Any, Generic, TypeVar, cast

from briskrl.core.errors import ConfigError, nearest

T = TypeVar("T")


def load_object(address: str) -> Any:
    """The object at "module:name"."""
    module, _, name = address.partition(":")
    return getattr(import_module(module), name)


def load_from_checkout(module: str, command: str) -> ModuleType:
    """Import a module of the `benchmarks` folder, which a checkout has and the wheel has not.

    Args:
        module: Full name, such as "benchmarks.legacy.compare".
        command: The command that needs it, for the message.

    Raises:
        ConfigError: briskrl is not installed from a checkout.
    """
    root = Path(__file__).parents[2]
    if not root.joinpath(*module.split(".")).with_suffix(".py").exists():
        folder = "/".join(module.split(".")[:-1])
        raise ConfigError(
            f"`{command}` runs from a checkout of the briskrl repository only: its code is in the "
            f"folder {folder}, which is not part of the installed package. Clone the repository "
            "and install it with: pip install -e ."
        )
    if str(root) not in sys.path:
        sys.path.insert(0, str(root))
    return import_module(module)


class Registry(Generic[T]):
    """Names of one kind of object, each with a lazy "module:name" address or the object itself.

    Other packages can add names through the entry-point group `briskrl.<kind>s`.
    """

    def __init__(self, kind: str) -> None:
        self.kind = kind
        self._entries: dict[str, str | T] = {}
        self._plugins_read = False

    def add(self, name: str, entry: str | T) -> None:
        """Register an object or its address; a name can be registered once."""
        if name in self._entries:
            raise ConfigError(f"The {self.kind} name {name!r} is already registered.")
        self._entries[name] = entry

    def __iter__(self) -> Iterator[str]:
        self._read_plugins()
        return iter(self._entries)

    def __contains__(self, name: str) -> bool:
        self._read_plugins()
        return name in self._entries

    def get(self, name: str) -> T:
        """Import and return the object of this name.

        Raises:
            ConfigError: The name is unknown; the message suggests similar names.
        """
        if name not in self:
            raise ConfigError(f"Unknown {self.kind} {name!r}. {nearest(name, self._entries)}")
        entry = self._entries[name]
        if isinstance(entry, str):
            entry = cast(T, load_object(entry))
            self._entries[name] = entry
        return entry

    def _read_plugins(self) -> None:
        if self._plugins_read:
            return
        self._plugins_read = True
        for point in entry_points(group=f"briskrl.{self.kind}s"):
            self._entries.setdefault(point.name, point.value)
