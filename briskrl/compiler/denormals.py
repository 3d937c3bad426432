"""What kernels need and Numba does not offer: tiny numbers that cost no more than others."""

from __future__ import annotations

import platform
from typing import Any

from llvmlite import ir
from numba import types
from numba.core import cgutils
from numba.extending import intrinsic

_ON_X86 = platform.machine().lower() in ("x86_64", "amd64")
_FLUSH = 0x8040
"""The bits of x86's control register that turn denormal results and operands into zeros."""

_SHORT = ir.IntType(32)


@intrinsic
def flush_denormals(typing):
    """Let this thread take denormals for zeros; returns what `restore_denormals` wants.

    Adam's moments of units that no longer fire decay into denormals, which cost many times more
    than normal numbers. Other processors than x86 are left as they are.
    """

    def generate(context, builder, signature, values):
        if not _ON_X86:
            return ir.Constant(_SHORT, 0)
        place = cgutils.alloca_once(builder, _SHORT)
        _control(builder, "st", place)
        before = builder.load(place)
        builder.store(builder.or_(before, ir.Constant(_SHORT, _FLUSH)), place)
        _control(builder, "ld", place)
        return before

    return types.uint32(), generate


@intrinsic
def restore_denormals(typing, before):
    """Undo `flush_denormals`, given what it returned."""

    def generate(context, builder, signature, values):
        if _ON_X86:
            place = cgutils.alloca_once(builder, _SHORT)
            builder.store(values[0], place)
            _control(builder, "ld", place)
        return context.get_dummy_value()

    return types.void(types.uint32), generate


def _control(builder: Any, what: str, place: Any) -> None:
    """Store or load the thread's floating-point control register."""
    pointer = ir.IntType(8).as_pointer()
    kind = ir.FunctionType(ir.VoidType(), [pointer])
    name = f"llvm.x86.sse.{what}mxcsr"
    function = cgutils.get_or_insert_function(builder.module, kind, name)
    builder.call(function, [builder.bitcast(place, pointer)])
