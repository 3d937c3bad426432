"""Kernel arguments unboxed once and reused.

Numba unboxes a tuple of arrays on every call, which costs more than 20 us for a kernel with
networks, an optimizer and a batch among its arguments. PackedArgs keeps the unboxed values in
memory of its own and passes a pointer to kernels.
"""

from __future__ import annotations

from typing import Any, Generic, TypeVar

import numba
import numpy as np
from llvmlite import ir
from numba import types
from numba.extending import NativeValue, intrinsic, models, register_model, unbox

from briskrl.compiler.jit import PLAIN, kernel

if not PLAIN:
    from briskrl.compiler.numba_internals import size_of

typeof: Any = numba.typeof
T = TypeVar("T", bound=tuple[Any, ...])


class PackedArgs(Generic[T]):
    """A tuple of arrays, scalars and such tuples, for kernels that begin with `unpack`.

    The contents of arrays may change; scalars are copied at construction.
    """

    def __init__(self, value: T) -> None:
        self.value = value
        """Kept alive here: compiled code sees only addresses."""
        kind = typeof(value)
        self._memory = np.zeros(_packed_size(kind, value), np.uint8)
        self._numba_type_ = PackedArgsType(kind)
        self.address = self._memory.ctypes.data
        write_packed(self._memory, value)

    def update(self, value: T) -> None:
        """Replace the tuple by one of equal types: dtypes, dimensions and layouts of arrays."""
        self.value = value
        write_packed(self._memory, value)


class PackedArgsType(types.Type):
    """The Numba type of PackedArgs: a pointer to the packed tuple."""

    def __init__(self, value: types.Type) -> None:
        self.value = value
        super().__init__(f"PackedArgs({value})")


register_model(PackedArgsType)(models.OpaqueModel)


@unbox(PackedArgsType)
def _unbox_pointer(kind, packed, call):
    number = call.pyapi.object_getattr_string(packed, "address")
    pointer = call.pyapi.long_as_voidptr(number)
    call.pyapi.decref(number)
    return NativeValue(pointer)


@intrinsic
def unpack(typing, packed):
    """The tuple that PackedArgs were built from."""

    def generate(context, builder, signature, values):
        kind = context.get_value_type(signature.return_type)
        return builder.load(builder.bitcast(values[0], kind.as_pointer()))

    return packed.value(packed), generate


@intrinsic
def call_address(typing, function, packed, number):
    """Call a kernel by its `jit.function_address`, with the address of PackedArgs and a number.

    The caller is not compiled together with the code of that kernel.
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
        unowned = _drop_owners(context, builder, signature.args[1], values[1])
        builder.store(unowned, builder.bitcast(array.data, kind.as_pointer()))
        return context.get_dummy_value()

    return types.void(memory, value), generate


def _drop_owners(context: Any, builder: Any, kind: Any, value: Any) -> Any:
    """A value whose arrays do not refer to their owners, which Numba releases after the call."""
    if isinstance(kind, types.Array):
        array = context.make_array(kind)(context, builder, value)
        array.meminfo = array.meminfo.type(None)
        array.parent = array.parent.type(None)
        return array._getvalue()
    if isinstance(kind, types.BaseTuple):
        members: Any = kind
        for i, member in enumerate(members):
            element = _drop_owners(context, builder, member, builder.extract_value(value, i))
            value = builder.insert_value(value, element, i)
    return value


@kernel
def write_packed(memory, value):
    """Write a value as compiled code represents it into an array of bytes."""
    _store(memory, value)


@intrinsic
def _size_of(typing, value):
    def generate(context, builder, signature, values):
        size = context.get_abi_sizeof(context.get_value_type(signature.args[0]))
        return ir.Constant(ir.IntType(64), size)

    return types.int64(value), generate


@kernel
def measure_packed(value):
    """Bytes of a value as compiled code represents it."""
    return _size_of(value)


def _packed_size(kind: Any, value: Any) -> int:
    size: int = measure_packed(value) if PLAIN else size_of(kind)
    return size
