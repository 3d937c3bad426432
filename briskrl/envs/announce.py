"""Makes the native environments known to Gymnasium without importing it.

Gymnasium asks packages to register their ids when they are imported, but importing it here would
slow down every `brisk --help`. So the ids are registered at once if Gymnasium is loaded already,
and otherwise at the end of its import.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from importlib import import_module
from importlib.abc import MetaPathFinder
from importlib.machinery import ModuleSpec
from importlib.util import find_spec
from types import ModuleType

_MODULE = "gymnasium"


def announce() -> None:
    """Register the ids with Gymnasium now, or as soon as it is imported."""
    if _MODULE in sys.modules:
        _register()
    else:
        sys.meta_path.insert(0, _AtImport())


def _register() -> None:
    import_module("briskrl.envs.as_gym").register()


class _AtImport(MetaPathFinder):
    """Finds nothing itself: lets the others find Gymnasium and adds a step to its loading."""

    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        if fullname != _MODULE:
            return None
        sys.meta_path.remove(self)
        spec = find_spec(fullname)
        if spec is not None and spec.loader is not None:
            load = spec.loader.exec_module

            def load_and_register(module: ModuleType) -> None:
                load(module)
                _register()

            spec.loader.exec_module = load_and_register  # type: ignore[method-assign]
        return spec
