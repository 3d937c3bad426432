"""Numbers that several threads of compiled code see at once, a clock for them, held arguments."""

from __future__ import annotations

from typing import Any

from llvmlite import ir
from numba import types
from numba.core import cgutils
from numba.core.datamodel import models
from numba.extending import NativeValue, intrinsic, register_model, unbox

from briskrl.compiler.jit import helper, kernel, sched_yield

GONE = 200_000
"""Cycles after which an offered core has been used by others; some thousand are usual."""


def _pointer(context: Any, builder: Any, signature: Any, values: Any) -> Any:
    """Where element values[1] of the array values[0] is."""
    array = context.make_array(signature.args[0])(context, builder, values[0])
    return builder.gep(array.data, [values[1]])


@intrinsic
def fetch_add(typing, array, index, number):
    """Add to an element that other threads see too; returns what it was before."""

    def generate(context, builder, signature, values):
        place = _pointer(context, builder, signature, values)
        return builder.atomic_rmw("add", place, values[2], "seq_cst")

    return types.int64(array, types.int64, types.int64), generate


@intrinsic
def atomic_store(typing, array, index, number):
    """Set an element; whoever sees it sees everything written before."""

    def generate(context, builder, signature, values):
        place = _pointer(context, builder, signature, values)
        return builder.atomic_rmw("xchg", place, values[2], "seq_cst")

    return types.int64(array, types.int64, types.int64), generate


@intrinsic
def atomic_load(typing, array, index):
    """An element as other threads left it, and everything they wrote before."""

    def generate(context, builder, signature, values):
        return builder.load_atomic(_pointer(context, builder, signature, values), "seq_cst", 8)

    return types.int64(array, types.int64), generate


@intrinsic
def compare_exchange(typing, array, index, expected, number):
    """Set an element if it is as expected; returns whether it was. One of several threads wins."""

    def generate(context, builder, signature, values):
        place = _pointer(context, builder, signature, values)
        result = builder.cmpxchg(place, values[2], values[3], "seq_cst", "seq_cst")
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
    """Offer the core to others; whether one of them took it.

    Then it comes back only after some milliseconds, and meanwhile the system takes this thread for
    one that needs a core. So whoever only waits for something should sleep from then on.
    """
    begin = cycles()
    sched_yield()
    return cycles() - begin > GONE


class PackedArgsType(types.Type):
    """The type of a Held in compiled code: a pointer to what it holds."""

    def __init__(self, value: types.Type) -> None:
        self.value = value
        super().__init__(f"Held({value})")


register_model(PackedArgsType)(models.OpaqueModel)


@unbox(PackedArgsType)
def _address_of(kind, held, call):
    number = call.pyapi.object_getattr_string(held, "address")
    pointer = call.pyapi.long_as_voidptr(number)
    call.pyapi.decref(number)
    return NativeValue(pointer)


@intrinsic
def unpack(typing, held):
    """What a Held holds."""

    def generate(context, builder, signature, values):
        kind = context.get_value_type(signature.return_type)
        return builder.load(builder.bitcast(values[0], kind.as_pointer()))

    return held.value(held), generate


@intrinsic
def call_address(typing, entry, held, number):
    """Call a kernel, by its `jit.entry`, with what is held at an address and a number.

    Such a call is not compiled anew with everything that the kernel does.
    """

    def generate(context, builder, signature, values):
        pointer = ir.IntType(8).as_pointer()
        kind = ir.FunctionType(pointer, [pointer, ir.IntType(64)])
        function = builder.inttoptr(values[0], kind.as_pointer())
        builder.call(function, [builder.inttoptr(values[1], pointer), values[2]])
        return context.get_dummy_value()

    return types.void(types.int64, types.int64, types.int64), generate


@intrinsic
def _store(typing, memory, value):
    def generate(context, builder, signature, values):
        array = context.make_array(signature.args[0])(context, builder, values[0])
        kind = context.get_value_type(signature.args[1])
        builder.store(values[1], builder.bitcast(array.data, kind.as_pointer()))
        return context.get_dummy_value()

    return types.void(memory, value), generate


@kernel
def write_packed(memory, value):
    """Write what a value looks like in compiled code into a memory of bytes."""
    _store(memory, value)
