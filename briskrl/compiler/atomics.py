"""Atomic operations on elements of int64 arrays, clocks and sleeping, for kernels."""

from __future__ import annotations

from typing import Any

from llvmlite import ir
from numba import types
from numba.core import cgutils
from numba.extending import intrinsic

from briskrl.compiler.jit import helper

CORE_TAKEN = 200_000
"""Cycles that `sched_yield` takes when another thread gets the core; some thousand are usual."""

sched_yield = types.ExternalFunction("sched_yield", types.int32())
"""The system call, for kernels: lets another thread have the core."""

usleep = types.ExternalFunction("usleep", types.int32(types.uint32))
"""Sleeps for a number of microseconds."""

clock_gettime = types.ExternalFunction("clock_gettime", types.int32(types.int32, types.uintp))
"""Writes the time of a clock to an address: two int64, seconds and nanoseconds."""


def _pointer(context: Any, builder: Any, signature: Any, values: Any) -> Any:
    """A pointer to element values[1] of the array values[0]."""
    array = context.make_array(signature.args[0])(context, builder, values[0])
    return builder.gep(array.data, [values[1]])


@intrinsic
def fetch_add(typing, array, index, number):
    """Add to an element that other threads use too; returns its value before."""

    def generate(context, builder, signature, values):
        pointer = _pointer(context, builder, signature, values)
        return builder.atomic_rmw("add", pointer, values[2], "seq_cst")

    return types.int64(array, types.int64, types.int64), generate


@intrinsic
def atomic_store(typing, array, index, number):
    """Set an element; a thread that sees the value sees everything written before."""

    def generate(context, builder, signature, values):
        pointer = _pointer(context, builder, signature, values)
        return builder.atomic_rmw("xchg", pointer, values[2], "seq_cst")

    return types.int64(array, types.int64, types.int64), generate


@intrinsic
def atomic_load(typing, array, index):
    """Read an element; everything that was written before its `atomic_store` is visible then."""

    def generate(context, builder, signature, values):
        return builder.load_atomic(_pointer(context, builder, signature, values), "seq_cst", 8)

    return types.int64(array, types.int64), generate


@intrinsic
def compare_exchange(typing, array, index, expected, number):
    """Set an element if it has the expected value; returns whether it had.

    Of several threads that try, one succeeds.
    """

    def generate(context, builder, signature, values):
        pointer = _pointer(context, builder, signature, values)
        result = builder.cmpxchg(pointer, values[2], values[3], "seq_cst", "seq_cst")
        return builder.extract_value(result, 1)

    return types.boolean(array, types.int64, types.int64, types.int64), generate


@intrinsic
def cycles(typing):
    """A clock that counts processor cycles, or something of that order."""

    def generate(context, builder, signature, values):
        kind = ir.FunctionType(ir.IntType(64), [])
        name = "llvm.readcyclecounter"
        return builder.call(cgutils.get_or_insert_function(builder.module, kind, name), [])

    return types.int64(), generate


@helper
def yield_core():
    """Let another thread have the core; returns whether one took it.

    If so, the core comes back only after some milliseconds, and meanwhile the system schedules this
    thread as one that needs a core. A thread that only waits should sleep from then on.
    """
    begin = cycles()
    sched_yield()
    return cycles() - begin > CORE_TAKEN
