"""NumPy, imported when the first answer needs it, because it would delay the page."""

from __future__ import annotations

import threading

_LOCK = threading.Lock()


def import_numpy() -> None:
    """Import NumPy in one thread while others wait.

    Its modules import each other, so threads that begin with different ones could wait for each
    other; Python then ends one of the imports with an error.
    """
    with _LOCK:
        import numpy  # noqa: F401
