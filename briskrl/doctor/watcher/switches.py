"""Settings that can be changed while a script runs, and changed back."""

from __future__ import annotations

import builtins
import gc
import io
import logging
import os
import sys
import time
from typing import TYPE_CHECKING, Any

from .patches import Patches

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    Undo = Callable[[], None]


class Switches:
    """At most one changed setting at a time.

    Args:
        others: Settings besides those of this module, by name.
    """

    def __init__(self, others: Mapping[str, Callable[[Any], list[Undo]]]) -> None:
        self._undo: list[Undo] = []
        self._known: dict[str, Callable[[Any], list[Undo]]] = {
            "unwatched": _nothing,
            "threads": _torch_threads,
            "denormals": _flush_denormals,
            "gc": _no_collections,
            "collect": _no_explicit_collections,
            "records": _deferred_records,
            "sleep": _no_sleep,
            "skip": _skip_calls,
            "anomaly": _no_anomaly_detection,
            "checks": _no_distribution_checks,
            **others,
        }

    def apply(self, name: str, value: Any) -> str:
        """Undo the last change and make another; returns why that is impossible, or nothing."""
        self.revert()
        if not name:
            return ""
        try:
            self._undo = self._known[name](value)
        except Exception as error:  # A report beats a crash of the script.
            return "%s: %s" % (type(error).__name__, error)  # noqa: UP031
        return ""

    def revert(self) -> None:
        """Undo the last change."""
        while self._undo:
            self._undo.pop()()


def _nothing(value: Any) -> list[Undo]:
    """The doctor sends no ticks during the turn."""
    return []


def _torch_threads(value: Any) -> list[Undo]:
    torch = sys.modules["torch"]
    before = torch.get_num_threads()
    torch.set_num_threads(value)
    return [lambda: torch.set_num_threads(before)]


def _flush_denormals(value: Any) -> list[Undo]:
    torch = sys.modules["torch"]
    if not torch.set_flush_denormal(True):
        raise RuntimeError("this processor cannot flush denormal numbers")
    return [lambda: torch.set_flush_denormal(False)]


def _no_anomaly_detection(value: Any) -> list[Undo]:
    torch = sys.modules["torch"]
    if not torch.is_anomaly_enabled():
        raise RuntimeError("the script has switched it off")
    checks_nan = torch.is_anomaly_check_nan_enabled()
    torch.autograd.set_detect_anomaly(False)
    return [lambda: torch.autograd.set_detect_anomaly(True, checks_nan)]


def _no_distribution_checks(value: Any) -> list[Undo]:
    base = sys.modules["torch.distributions.distribution"].Distribution
    base.set_default_validate_args(False)
    return [lambda: base.set_default_validate_args(True)]


def debugging_modes() -> dict[str, bool]:
    """Modes of torch that find mistakes and take time, and whether they are on."""
    torch = sys.modules["torch"]
    distribution = sys.modules.get("torch.distributions.distribution")
    base = getattr(distribution, "Distribution", None)
    is_enabled = getattr(torch, "is_anomaly_enabled", None)
    return {
        "anomaly": bool(is_enabled is not None and is_enabled()),
        "checks": bool(getattr(base, "_validate_args", False)),
    }


def _no_collections(value: Any) -> list[Undo]:
    if not gc.isenabled():
        raise RuntimeError("the script has disabled garbage collection")
    gc.disable()
    return [gc.enable]


def _no_explicit_collections(value: Any) -> list[Undo]:
    patches = Patches()
    patches.put(gc, "collect", lambda generation=2: 0)
    return [patches.restore]


def _no_sleep(value: Any) -> list[Undo]:
    patches = Patches()
    patches.put(time, "sleep", lambda seconds: None)
    return [patches.restore]


def _deferred_records(value: Any) -> list[Undo]:
    """Keep lines and calls back, and write them when the turn is over: nothing is lost."""
    patches = Patches()
    waiting: list[Callable[[], Any]] = []
    printing = builtins.print

    def deferred_print(*values: Any, **options: Any) -> None:
        file = options.pop("file", None) or sys.stdout
        options.pop("flush", None)
        text = io.StringIO()
        printing(*values, file=text, **options)
        waiting.append(lambda: file.write(text.getvalue()))

    def deferred(original: Callable[..., Any]) -> Callable[..., Any]:
        def call(*args: Any, **options: Any) -> None:
            waiting.append(lambda: original(*args, **options))

        return call

    patches.put(builtins, "print", deferred_print)
    patches.wrap(logging.StreamHandler, "emit", deferred)
    patches.wrap(os, "fsync", lambda original: lambda descriptor: None)
    for module, cls, names in WRITERS:
        owner = getattr(sys.modules.get(module), cls, None)
        for name in names if owner is not None else ():
            patches.wrap(owner, name, deferred)

    def write() -> None:
        patches.restore()
        for call in waiting:
            call()

    return [write]


WRITERS = (
    ("torch.utils.tensorboard.writer", "SummaryWriter", ("add_scalar", "add_scalars", "flush")),
    ("tensorboardX.writer", "SummaryWriter", ("add_scalar", "add_scalars", "flush")),
)
"""Classes whose calls can be made later without another result."""


def _skip_calls(value: Any) -> list[Undo]:
    """Make every n-th call of a function; others return what the last one returned."""
    path, every = value["path"], value["every"]
    owner: Any = _module_of(value["file"])
    *outer, name = path.split(".")
    for part in outer:
        owner = getattr(owner, part)
    patches = Patches()
    state: dict[str, Any] = {"calls": 0, "last": None}

    def skipping(original: Callable[..., Any]) -> Callable[..., Any]:
        def call(*args: Any, **options: Any) -> Any:
            state["calls"] += 1
            if state["calls"] % every == 0 or state["calls"] == 1:
                state["last"] = original(*args, **options)
            return state["last"]

        return call

    patches.wrap(owner, name, skipping)
    return [patches.restore]


def _module_of(file: str) -> Any:
    """The module that was loaded from a file."""
    for module in list(sys.modules.values()):
        path = getattr(module, "__file__", None)
        if isinstance(path, str) and os.path.abspath(path) == file:
            return module
    raise RuntimeError("the module of the function is not loaded")
