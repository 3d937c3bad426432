"""Contexts of planted faults: a console, and a process that keeps a core busy."""

from __future__ import annotations

import multiprocessing
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path


@contextmanager
def console(folder: Path) -> Iterator[None]:
    """Redirect standard output and error to files, so that printing has a real cost."""
    before = sys.stdout, sys.stderr
    with (folder / "out").open("w") as out, (folder / "errors").open("w") as errors:
        sys.stdout, sys.stderr = out, errors
        try:
            yield
        finally:
            sys.stdout, sys.stderr = before


@contextmanager
def busy_core() -> Iterator[None]:
    """A process that keeps one core busy."""
    process = multiprocessing.get_context("spawn").Process(target=_spin, daemon=True)
    process.start()
    try:
        yield
    finally:
        process.kill()
        process.join()


def _spin() -> None:
    while True:
        pass
