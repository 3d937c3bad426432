"""Compiled kernels on disk.

Numba's own cache raises every error of a file, loads any pickle that it finds, and numbers its
files: two processes that compile one kernel for different arguments at the same time choose the
same number, and later ones load the wrong code. This one takes its place. Whatever cannot be loaded
counts as missing, so that the kernel is compiled and saved again; what cannot be saved is compiled
by the next start. Relies on undocumented parts of Numba.
"""

from __future__ import annotations

import inspect
import logging
import pickle
import sys
from collections.abc import Callable
from hashlib import blake2b
from pathlib import Path
from typing import Any, NamedTuple
from uuid import uuid4

from numba.core.caching import NullCache
from numba.core.compiler import CompileResult
from numba.core.serialize import dumps

from briskrl.compiler.cache_files import UnusableCacheError, make_private, read_whole, write_whole

CANNOT_LOAD = "Compiled kernels cannot be loaded and are compiled again"
CANNOT_SAVE = "Compiled kernels cannot be saved, so the next start compiles them again"
NOT_CACHED = "Kernels are compiled without the cache on disk"

_log = logging.getLogger(__name__)
_reported: set[str] = set()


def keep_on_disk(compiled: Any, folder: Path) -> None:
    """Keep the compiled code of a kernel in files below the folder of kernels."""
    try:
        compiled._cache = KernelCache(compiled.py_func, folder)
    except Exception as error:
        _report(NOT_CACHED, error)


class KernelCache(NullCache):
    """The compiled code of one kernel, as Numba's dispatcher uses it.

    Args:
        function: What is compiled.
        folder: The folder of kernels, `<cache>/briskrl/kernels-<hash>`.
    """

    def __init__(self, function: Callable[..., Any], folder: Path) -> None:
        source = Path(inspect.getfile(function)).resolve()
        self._function = function
        self._folder = folder / f"{source.parent.name}-{_hash(str(source.parent).encode())}"
        self._stamp = _hash(source.read_bytes())
        name = f"{source.stem}.{function.__qualname__}".replace("<", "").replace(">", "")
        line = function.__code__.co_firstlineno
        self._name = f"{name}-{line}.{sys.implementation.cache_tag}"
        self._make_folder()

    @property
    def cache_path(self) -> str:
        """The folder of the files, for Numba's statistics."""
        return str(self._folder)

    def load_overload(self, sig: Any, target_context: Any) -> Any:
        """The compiled code for a signature; None if it is not there or cannot be used."""
        # Numba's cache does the same: loaded code refers to what this makes.
        target_context.refresh()
        try:
            name = self._load_index().get(self._key(sig, target_context.codegen()))
            saved = None if name is None else self._load(name)
            return None if saved is None else CompileResult._rebuild(target_context, *saved)
        except Exception as error:
            _report(CANNOT_LOAD, error)
            return None

    def save_overload(self, sig: Any, data: Any) -> None:
        """Save compiled code, if possible."""
        if data.lifted or data.library.has_dynamic_globals:
            return
        try:
            self._make_folder()
            self._save_code(self._key(sig, data.codegen), data._reduce())
        except Exception as error:
            _report(CANNOT_SAVE, error)

    def _make_folder(self) -> None:
        make_private(self._folder, below=self._folder.parents[2])

    def _save_code(self, key: Any, code: Any) -> None:
        index = self._load_index()
        name = index.get(key) or f"{self._name}.{uuid4().hex}.nbc"
        # Before the index, which never refers to a file that is not there yet.
        self._save(name, code)
        if key not in index:
            self._save(self._index_name, _Index(self._stamp, {**index, key: name}))

    @property
    def _index_name(self) -> str:
        return f"{self._name}.nbi"

    def _load_index(self) -> dict[Any, str]:
        """Names of files, by argument types and processor."""
        saved = self._load(self._index_name)
        if not isinstance(saved, _Index):
            if saved is not None:
                _report(CANNOT_LOAD, UnusableCacheError(f"{self._index_name} is not an index"))
            return {}
        return saved.files if saved.stamp == self._stamp else {}

    def _load(self, name: str) -> Any:
        try:
            return pickle.loads(read_whole(str(self._folder / name)))
        except FileNotFoundError:
            return None
        except Exception as error:
            _report(CANNOT_LOAD, error)
            return None

    def _save(self, name: str, value: Any) -> None:
        write_whole(str(self._folder / name), dumps(value))

    def _key(self, sig: Any, codegen: Any) -> Any:
        """Everything that decides about the compiled code of this function, besides its source."""
        function = self._function
        cells = [cell.cell_contents for cell in function.__closure__ or ()]
        closure = dumps(tuple(cells)) if cells else b""
        return sig, codegen.magic_tuple(), _hash(function.__code__.co_code), _hash(closure)


class _Index(NamedTuple):
    """The content of an index file."""

    stamp: str
    """Hash of the kernel's source."""
    files: dict[Any, str]
    """Names of files, by argument types and processor."""


def _hash(data: bytes) -> str:
    return blake2b(data, digest_size=16).hexdigest()


def _report(event: str, error: Exception) -> None:
    """Log an error: the first of each kind as a warning, because the others have its cause."""
    level = logging.DEBUG if event in _reported else logging.WARNING
    _reported.add(event)
    _log.log(level, "%s: %s", event, error or type(error).__name__)
