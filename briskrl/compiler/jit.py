"""Numba decorators with an on-disk cache.

Numba does not notice when a function in another file changes, so the name of the cache folder
contains a hash of every source that compiled code depends on, and of the Numba version.
`cache_files` explains when the folder is used.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from functools import cache
from importlib.metadata import version
from pathlib import Path
from typing import Any

import numba

from briskrl.compiler.cache_files import UnusableCacheError, make_private
from briskrl.compiler.cache_key import source_hash
from briskrl.core.user_cache import user_cache

_log = logging.getLogger(__name__)

try:
    from briskrl.compiler import kernel_cache, numba_internals

    numba_internals.check()
    PLAIN = False
except Exception as error:  # Whatever another version of Numba raises.
    PLAIN = True
    _log.warning(
        "Kernels take longer to compile, at every start: internals of Numba %s are not as expected "
        "(%s: %s)",
        version("numba"),
        type(error).__name__,
        error,
    )

typeof: Any = numba.typeof
Function = Callable[..., Any]


@cache
def cache_folder() -> Path | None:
    """The folder of compiled kernels, or None if there is no place for it that can be trusted."""
    base = user_cache()
    if base is None:
        _log.warning(
            "Kernels are compiled at every start: this user has no home folder for the compiled "
            "code. Set XDG_CACHE_HOME to a folder of your own to keep it."
        )
        return None
    key = source_hash(Path(__file__).parent.parent, version("numba"))
    folder = base / "briskrl" / f"kernels-{key}"
    try:
        make_private(folder, below=base)
    except (UnusableCacheError, OSError) as error:
        _log.warning("Kernels are compiled without the cache on disk: %s.", error)
        return None
    return folder


def kernel(function: Function) -> Function:
    """Compile `function` on first call: lock released, cached on disk where possible.

    Kernels and their helpers work on the arrays they are given and cannot make any.
    """
    compiled = numba.njit(**_options())(function)
    # Without the internals there is no way to check files before Numba loads them.
    folder = None if PLAIN else cache_folder()
    if folder is not None:
        kernel_cache.keep_on_disk(compiled, folder)
    return compiled  # type: ignore[no-any-return]


def helper(function: Function) -> Function:
    """Compile a function that only kernels call; it is cached as part of its callers."""
    return _helper(function)


def inline_helper(function: Function) -> Function:
    """A helper that is always inlined: a call passes one array as seven arguments."""
    return _helper(function, inline=True)


def fma_helper(function: Function) -> Function:
    """An inlined helper whose products and sums may be fused, and are then rounded once."""
    return _helper(function, inline=True, fastmath={"contract"})


def fastmath_helper(function: Function) -> Function:
    """A helper whose sums may be reordered to fill whole vectors.

    The order is fixed by the code and the processor, so results stay the same from run to run.
    """
    return _helper(function, fastmath={"reassoc", "contract", "nsz"})


def fastmath_finite_helper(function: Function) -> Function:
    """The same for finite numbers only: quotients may be products with a refined reciprocal."""
    return _helper(function, fastmath={"reassoc", "contract", "nsz", "arcp", "ninf"})


def function_address(compiled: Any, packed: Any, number: int) -> int:
    """The address at which `call_address` calls a kernel with arguments like these.

    The kernel is compiled if need be. The address is valid as long as the kernel exists.
    """
    kinds = (typeof(packed), typeof(number))
    if PLAIN:
        return _c_callback(compiled, kinds).address  # type: ignore[no-any-return]
    return numba_internals.native_address(compiled, kinds)


@cache
def _c_callback(compiled: Any, kinds: tuple[Any, ...]) -> Any:
    """A C function that calls a kernel, as documented by Numba; cached to keep it alive."""
    signature = numba.types.void(*kinds)
    return numba.cfunc(signature)(lambda packed, number: compiled(packed, number))


def _helper(function: Function, *, inline: bool = False, **options: Any) -> Function:
    options |= _options()
    if PLAIN:
        return numba.njit(**options)(function)  # type: ignore[no-any-return]
    if inline:
        options |= numba_internals.INLINE_OPTIONS
    return numba_internals.make_link_only(function, options)  # type: ignore[no-any-return]


def _options() -> dict[str, Any]:
    # The numpy error model drops the zero-division branch, which blocks vectorization.
    options = {"nogil": True, "error_model": "numpy"}
    return options if PLAIN else options | numba_internals.KERNEL_OPTIONS
