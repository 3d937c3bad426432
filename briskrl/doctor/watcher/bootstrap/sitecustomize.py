"""Load the watcher before a script, then the `sitecustomize` that this file stands in front of.

The doctor puts this folder first in PYTHONPATH. Both variables and the folder are gone before the
script begins, so the script, its workers and programs it starts see their usual environment.
"""

from __future__ import annotations

import importlib.util
import os
import sys


def _restore_path(here: str) -> None:
    before = os.environ.pop("BRISK_WATCH_PYTHONPATH", None)
    if before is None:
        os.environ.pop("PYTHONPATH", None)
    else:
        os.environ["PYTHONPATH"] = before
    sys.path[:] = [entry for entry in sys.path if os.path.realpath(entry) != here]


def _load_original() -> None:
    ours = sys.modules.pop("sitecustomize")
    sys.path_importer_cache.clear()
    try:
        importlib.import_module("sitecustomize")
    except ImportError as error:
        # The interpreter expects to find what it has imported.
        sys.modules["sitecustomize"] = ours
        if error.name != "sitecustomize":
            raise


def _load_watcher(here: str, folder: str) -> None:
    package = os.path.dirname(here)
    spec = importlib.util.spec_from_file_location(
        "_brisk_watcher",
        os.path.join(package, "__init__.py"),
        submodule_search_locations=[package],
    )
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules["_brisk_watcher"] = module
    spec.loader.exec_module(module)
    importlib.import_module("_brisk_watcher.start").start(folder)


def _main() -> None:
    here = os.path.dirname(os.path.realpath(__file__))
    folder = os.environ.pop("BRISK_WATCH", None)
    _restore_path(here)
    _load_original()
    if folder is None:
        return
    try:
        _load_watcher(here, folder)
    except Exception as error:  # A watcher that fails must not stop the script.
        with open(os.path.join(folder, "failure"), "w", encoding="utf-8") as file:
            file.write("%s: %s" % (type(error).__name__, error))  # noqa: UP031


_main()
