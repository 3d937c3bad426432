"""The one door to Numba: a `kernel` decorator whose compiled code is cached on disk.

Numba does not notice when a function in another file changes, so the cache folder's name carries a
hash of every kernel source in the package and of the Numba version. Cache files are pickles, hence a
folder that only its owner can read.
"""

from __future__ import annotations

import hashlib
import os
import tempfile
from collections.abc import Callable
from functools import cache
from importlib.metadata import version
from pathlib import Path
from typing import Any

import numba

Function = Callable[..., Any]


@cache
def cache_folder() -> Path | None:
    """The folder of compiled kernels, or None if no place can be written to."""
    digest = hashlib.blake2b(version("numba").encode(), digest_size=8)
    for source in sorted(Path(__file__).parent.rglob("kernels.py")):
        digest.update(source.read_bytes())
    base = os.environ.get("XDG_CACHE_HOME") or str(Path.home() / ".cache")
    folder = Path(base) / "briskrl" / f"kernels-{digest.hexdigest()}"
    try:
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        with tempfile.TemporaryFile(dir=folder):
            return folder
    except OSError:
        return None


def kernel(function: Function) -> Function:
    """Compile `function` on first call: interpreter lock released, cached on disk where possible."""
    folder = cache_folder()
    before = numba.config.CACHE_DIR
    # Numba reads this setting while decorating; other packages' kernels must not land in our folder.
    numba.config.CACHE_DIR = str(folder or "")
    try:
        return _njit(function, cache=folder is not None)
    finally:
        numba.config.CACHE_DIR = before


def helper(function: Function) -> Function:
    """Compile a small function that only kernels call; it is cached as part of its callers."""
    return _njit(function, cache=False)


def _njit(function: Function, *, cache: bool) -> Function:
    # The numpy error model drops the zero-division branch, which blocks vectorisation.
    options = {"nogil": True, "error_model": "numpy", "cache": cache}
    return numba.njit(**options)(function)  # type: ignore[no-any-return]
