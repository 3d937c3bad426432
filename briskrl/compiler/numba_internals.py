"""Everything that relies on undocumented parts of Numba, but for the cache (`kernel_cache`).

If this module fails to import, or `check` fails, `compiler.jit` compiles with plain `numba.njit`:
the first start then takes longer, results are equal.

Helpers are compiled to LLVM IR only. Numba makes machine code of every function that it compiles,
together with a copy of everything that the function calls. Where helpers call helpers, the same
code goes through the optimizer once for every level above it, and only the kernel at the top ever
runs. So helpers stay IR to be linked, and a kernel is optimized as a whole, once. Measured for the
first start of DQN on Snake: 23 s of CPU instead of 43, with equal results and at the same speed.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from importlib.metadata import version
from typing import Any

import numba
from llvmlite import binding, ir
from numba.core.codegen import JITCodeLibrary
from numba.core.compiler import CompilerBase, DefaultPassBuilder
from numba.core.registry import cpu_target
from numba.core.types import unliteral

Function = Callable[..., Any]

TESTED = (0, 61), (0, 69)
"""Numba versions from the first up to, not including, the second; as in pyproject.toml."""
ADDRESS = ir.IntType(64)

# Numba counts references to array arguments on every call between compiled functions, with atomic
# operations that can cost more than the work of a small helper. Nothing here makes arrays, so
# nothing needs counting. Measured for Snake's features: 40 ns a step against 103 ns.
KERNEL_OPTIONS: dict[str, Any] = {"_nrt": False}
HELPER_OPTIONS: dict[str, Any] = {"no_cpython_wrapper": True, "no_cfunc_wrapper": True}
INLINE_OPTIONS: dict[str, Any] = {"forceinline": True}


class LinkOnlyLibrary(JITCodeLibrary):
    """A helper's code, for linking into kernels."""

    def _optimize_final_module(self) -> None:
        """Do nothing: the kernel is optimized as a whole."""

    def _finalize_final_module(self) -> None:
        """Load only the helper's variables into memory.

        Numba keeps in them what printing and exceptions need. A kernel that finds them there
        brings none of its own.
        """
        variables = self._codegen._create_empty_module(self.name)
        for variable in self._final_module.global_variables:
            if variable.linkage == binding.Linkage.common:
                copy = ir.GlobalVariable(variables, ADDRESS, variable.name)
                copy.linkage = "common"
                copy.initializer = ir.Constant(ADDRESS, 0)
        self._codegen._add_module(binding.parse_assembly(str(variables)))
        self._finalize_specific()
        self._finalized = True


class LinkOnlyCompiler(CompilerBase):
    """Numba's compiler with a LinkOnlyLibrary as its result."""

    def define_pipelines(self) -> list[Any]:
        """Numba's own passes."""
        state = self.state
        state.library = LinkOnlyLibrary(state.targetctx.codegen(), state.func_id.func_qualname)
        return [DefaultPassBuilder.define_nopython_pipeline(state)]


def make_link_only(function: Function, options: dict[str, Any]) -> Any:
    """Compile a helper to IR on first use by a kernel; calls from Python raise a TypeError."""
    compiled: Any = numba.njit(pipeline_class=LinkOnlyCompiler, **HELPER_OPTIONS, **options)(
        function
    )
    # Without machine code there is no address that a call from Python could jump to.
    compiled._insert = lambda *overload: None
    compiled._compile_for_args = partial(_refuse, function)
    compiled.get_call_template = partial(_call_template, compiled)
    return compiled


def _refuse(function: Function, *arguments: Any) -> None:
    raise TypeError(f"{function.__name__} is a helper: only kernels can call it")


def _call_template(compiled: Any, kinds: Any, named: Any) -> Any:
    """Compile one version for all integers; Numba makes one for each integer constant."""
    plain = tuple(unliteral(kind) for kind in kinds)
    return type(compiled).get_call_template(compiled, plain, named)


def native_address(compiled: Any, kinds: tuple[Any, ...]) -> int:
    """The address of a kernel's C function for arguments of these Numba types."""
    compiled.compile(kinds)
    found = compiled.overloads[kinds]
    address: int = found.library.get_pointer_to_function(found.fndesc.llvm_cfunc_wrapper_name)
    return address


def size_of(kind: Any) -> int:
    """Bytes of a value of a Numba type in compiled code."""
    context = cpu_target.target_context
    size: int = context.get_abi_sizeof(context.get_value_type(kind))
    return size


def check() -> None:
    """On a Numba version that was not tested, compile and run a helper, a kernel and the rest.

    Raises:
        Exception: Something of this module does not work with this version.
    """
    release = tuple(int(part) for part in version("numba").split(".")[:2])
    if not TESTED[0] <= release < TESTED[1]:
        run_self_check()


def run_self_check() -> None:
    """Use every part of this module once; takes a fraction of a second.

    Raises:
        Exception: Something does not work.
    """
    options = {"nogil": True, "error_model": "numpy", **KERNEL_OPTIONS}

    def add(x: int, y: int) -> int:
        return x + y

    helper = make_link_only(add, {**options, **INLINE_OPTIONS})

    def add_twice(x: int, y: int) -> int:
        sum_: int = helper(helper(x, y), 1)
        return sum_

    kernel = numba.njit(**options)(add_twice)
    kinds = (numba.int64, numba.int64)
    if kernel(2, 3) != 6 or not native_address(kernel, kinds) or size_of(kinds[0]) != 8:
        raise RuntimeError("a kernel with a helper gives a wrong result")
