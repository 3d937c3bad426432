"""The one door to Numba: a `kernel` decorator whose compiled code is cached on disk.

Numba does not notice when a function in another file changes, so the cache folder's name carries a
hash of every kernel source in the package, of how they are compiled and of the Numba version. Cache
files are pickles, hence a folder that only its owner can read.
"""

from __future__ import annotations

import hashlib
import os
import tempfile
from collections.abc import Callable
from functools import cache, partial
from importlib.metadata import version
from pathlib import Path
from typing import Any
from uuid import uuid4

import numba
from numba.core.types import unliteral

from briskrl.compiler.link_only import LinkOnlyCompiler

config: Any = numba.config
Function = Callable[..., Any]

sched_yield = numba.types.ExternalFunction("sched_yield", numba.types.int32())
"""The system's call of that name, for kernels: offers the core to other threads."""

usleep = numba.types.ExternalFunction("usleep", numba.types.int32(numba.types.uint32))
"""Sleeps for so many microseconds."""

clock_gettime = numba.types.ExternalFunction(
    "clock_gettime", numba.types.int32(numba.types.int32, numba.types.uintp)
)
"""Writes what a clock tells to an address: two whole numbers, seconds and nanoseconds."""


@cache
def cache_folder() -> Path | None:
    """The folder of compiled kernels, or None if no place can be written to."""
    digest = hashlib.blake2b(version("numba").encode(), digest_size=8)
    package = Path(__file__).parent.parent
    for source in sorted(package.rglob("*.py")):
        code = source.read_bytes()
        if source.parent.name == "compiler" or b"briskrl.compiler" in code:
            digest.update(code)
    base = os.environ.get("XDG_CACHE_HOME") or str(Path.home() / ".cache")
    folder = Path(base) / "briskrl" / f"kernels-{digest.hexdigest()}"
    try:
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        with tempfile.TemporaryFile(dir=folder):
            return folder
    except OSError:
        return None


# Numba counts references to array arguments on every call between compiled functions, with atomic
# operations that can cost more than the work of a small helper. Nothing here makes arrays, so
# nothing needs counting. Measured for Snake's features: 40 ns a step against 103 ns.
_LEAN: dict[str, Any] = {"_nrt": False}


def kernel(function: Function) -> Function:
    """Compile `function` on first call: lock released, cached on disk where possible.

    Kernels and their helpers work on the arrays they are given and cannot make any.
    """
    return _cached(function, _LEAN)


def helper(function: Function) -> Function:
    """Compile a small function that only kernels call; it is cached as part of its callers."""
    return _inner(function)


def inline_helper(function: Function) -> Function:
    """A helper that is always inlined; one array argument is seven arguments of a call."""
    return _inner(function, forceinline=True)


def fma_helper(function: Function) -> Function:
    """An inlined helper whose products and sums may become one operation, rounded once."""
    return _inner(function, forceinline=True, fastmath={"contract"})


def fastmath_helper(function: Function) -> Function:
    """A helper whose sums may be taken in another order than written, to fill whole vectors.

    The order is fixed by the code and the processor, so results stay the same from run to run.
    """
    return _inner(function, fastmath={"reassoc", "contract", "nsz"})


def fastmath_finite_helper(function: Function) -> Function:
    """The same for finite numbers alone: quotients may be products with a refined reciprocal."""
    return _inner(function, fastmath={"reassoc", "contract", "nsz", "arcp", "ninf"})


def function_address(compiled: Any, *arguments: Any) -> int:
    """The address at which compiled code calls a kernel with such arguments, see `call_address`.

    It is compiled if need be, and stays where it is as long as there is the kernel.
    """
    kinds = tuple(map(numba.typeof, arguments))
    compiled.compile(kinds)
    found = compiled.overloads[kinds]
    address: int = found.library.get_pointer_to_function(found.fndesc.llvm_cfunc_wrapper_name)
    return address


def _inner(function: Function, **options: Any) -> Function:
    """Compile a function as an ingredient of kernels, without a way into it from Python."""
    lean = {**_LEAN, "no_cpython_wrapper": True, "no_cfunc_wrapper": True}
    compiled: Any = _njit(function, {**lean, **options, "pipeline_class": LinkOnlyCompiler})
    # Numba would take a call from Python to an address of nothing.
    compiled._insert = lambda *overload: None
    compiled._compile_for_args = partial(_refuse, function)
    compiled.get_call_template = partial(_call_template, compiled)
    return compiled  # type: ignore[no-any-return]


def _refuse(function: Function, *arguments: Any) -> None:
    raise TypeError(f"only kernels can call {function.__name__}, a helper of theirs")


def _call_template(compiled: Any, kinds: Any, named: Any) -> Any:
    """Have one version compiled for whatever whole numbers; Numba makes one for each constant."""
    plain = tuple(unliteral(kind) for kind in kinds)  # type: ignore[no-untyped-call]
    return type(compiled).get_call_template(compiled, plain, named)


def _cached(function: Function, options: dict[str, Any]) -> Function:
    folder = cache_folder()
    before = config.CACHE_DIR
    # Numba reads this setting while decorating; other packages' kernels must not land there.
    config.CACHE_DIR = str(folder or "")
    try:
        compiled = _njit(function, {**options, "cache": folder is not None})
    finally:
        config.CACHE_DIR = before
    if folder is not None:
        _name_apart(compiled)
    return compiled


def _name_apart(compiled: Any) -> None:
    """Have the files of compiled code named as no other process names its own.

    Numba numbers them. Two processes that compile one kernel for different arguments at the same
    time choose the same number, and later ones may then find the code for other arguments.
    """
    files = compiled._cache._cache_file
    files._data_name = lambda number: f"{files._index_name}.{uuid4().hex}.nbc"


def _njit(function: Function, options: dict[str, Any]) -> Function:
    # The numpy error model drops the zero-division branch, which blocks vectorization.
    compiled: Function = numba.njit(nogil=True, error_model="numpy", **options)(function)
    return compiled
