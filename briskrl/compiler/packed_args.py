"""Arguments of kernels that are the same call after call, and are taken apart only once.

Numba takes a tuple of arrays apart on every call, which costs a kernel with networks, an optimizer
and a batch among its arguments more than 20 us. A Held keeps what it finds then in a memory of its
own, and hands kernels a pointer to that.
"""

from __future__ import annotations

from typing import Any, Generic, TypeVar

import numba
import numpy as np
from numba.core.registry import cpu_target

from briskrl.compiler.atomics import PackedArgsType, write_packed

typeof: Any = numba.typeof
T = TypeVar("T", bound=tuple[Any, ...])


class PackedArgs(Generic[T]):
    """A tuple of arrays, numbers and such tuples, for kernels that begin with `unpack`.

    What arrays contain may change; numbers are those of the beginning.
    """

    def __init__(self, value: T) -> None:
        self.value = value
        """Kept alive here: compiled code sees addresses alone."""
        kind = typeof(value)
        context = cpu_target.target_context
        self._memory = np.zeros(context.get_abi_sizeof(context.get_value_type(kind)), np.uint8)
        self._numba_type_ = PackedArgsType(kind)
        self.address = self._memory.ctypes.data
        write_packed(self._memory, value)

    def update(self, value: T) -> None:
        """Hold something else of the very same kind: types, dimensions and layouts of arrays."""
        self.value = value
        write_packed(self._memory, value)
