"""Transposed blocks of matrices, in registers."""

from __future__ import annotations

from typing import Any

from llvmlite import ir
from numba import types
from numba.core import cgutils
from numba.extending import intrinsic

from briskrl.fused.kernels.gemm_tile import I32, Matrix, i32, i64, lanes, matrix_of


@intrinsic
def transpose(typing, target, source, size):
    """Write the transpose of a square block of `source` into `target`.

    Args:
        typing: Numba's.
        target: Matrix; its step is 1, as is that of `source`.
        source: Matrix.
        size: Rows and columns of the block, a constant and a power of two.
    """
    if not isinstance(size, types.IntegerLiteral):
        return None

    def generate(context, builder, signature, values):
        _Transpose(context, builder, signature.args, values, size.literal_value).write()
        return context.get_dummy_value()

    return types.void(target, source, size), generate


@intrinsic
def transpose_edge(typing, target, source, rows, columns, size):
    """The same for a block with fewer rows or columns than `size`: nothing else is written."""
    if not isinstance(size, types.IntegerLiteral):
        return None

    def generate(context, builder, signature, values):
        _MaskedTranspose(context, builder, signature.args, values, size.literal_value).write()
        return context.get_dummy_value()

    return types.void(target, source, types.int64, types.int64, size), generate


class _Transpose:
    """Generates the transpose of a block in registers."""

    def __init__(self, context: Any, builder: Any, kinds: Any, values: Any, size: int) -> None:
        self.builder = builder
        self.size = size
        self.target, self.source = (
            matrix_of(context, builder, kinds[i], values[i]) for i in (0, 1)
        )
        number = kinds[0].types[0].dtype
        self.align = number.bitwidth // 8
        self.vector = ir.VectorType(context.get_data_type(number), size)

    def write(self) -> None:
        """Exchange the off-diagonal halves of blocks of 2, 4, 8... rows."""
        size = self.size
        rows = [self._load(row) for row in range(size)]
        half = 1
        while half < size:
            # Lanes of the second operand are numbered from `size`.
            upper = [lane if not lane & half else size + lane - half for lane in range(size)]
            lower = [lane + half if not lane & half else size + lane for lane in range(size)]
            for row in range(size):
                if not row & half:
                    pair = rows[row], rows[row + half]
                    rows[row], rows[row + half] = (
                        self.builder.shuffle_vector(*pair, lanes(indices))
                        for indices in (upper, lower)
                    )
            half *= 2
        for row in range(size):
            self._store(rows[row], row)

    def _load(self, row: int) -> Any:
        return self.builder.load(self._pointer(self.source, row), align=self.align)

    def _store(self, vector: Any, row: int) -> None:
        self.builder.store(vector, self._pointer(self.target, row), align=self.align)

    def _pointer(self, matrix: Matrix, row: int) -> Any:
        offset = self.builder.add(matrix.offset, self.builder.mul(i64(row), matrix.stride))
        return self.builder.bitcast(
            self.builder.gep(matrix.data, [offset]), self.vector.as_pointer()
        )


class _MaskedTranspose(_Transpose):
    """Skips elements outside of the block's rows and columns."""

    def __init__(self, context: Any, builder: Any, kinds: Any, values: Any, size: int) -> None:
        super().__init__(context, builder, kinds, values, size)
        self.rows, self.columns = values[2:4]
        self.flags = ir.VectorType(ir.IntType(1), size)
        pointer = self.vector.as_pointer()
        arguments = [pointer, I32, self.flags]
        self.masked_load = self._intrinsic("load", self.vector, [*arguments, self.vector])
        self.masked_store = self._intrinsic("store", ir.VoidType(), [self.vector, *arguments])

    def _intrinsic(self, what: str, result: Any, arguments: list[Any]) -> Any:
        bits = 8 * self.align
        name = f"llvm.masked.{what}.v{self.size}f{bits}.p0"
        kind = ir.FunctionType(result, arguments)
        return cgutils.get_or_insert_function(self.builder.module, kind, name)

    def _load(self, row: int) -> Any:
        pointer = self._pointer(self.source, row)
        nothing = ir.Constant(self.vector, None)
        flags = self._mask(row, self.rows, self.columns)
        return self.builder.call(self.masked_load, [pointer, i32(self.align), flags, nothing])

    def _store(self, vector: Any, row: int) -> None:
        pointer = self._pointer(self.target, row)
        flags = self._mask(row, self.columns, self.rows)
        self.builder.call(self.masked_store, [vector, pointer, i32(self.align), flags])

    def _mask(self, row: int, rows: Any, columns: Any) -> Any:
        """A mask of the elements of a row that are within the given rows and columns."""
        builder = self.builder
        count = builder.select(builder.icmp_signed("<", i64(row), rows), columns, i64(0))
        few = builder.trunc(count, I32)
        nothing = ir.Constant(ir.VectorType(I32, self.size), ir.Undefined)
        first = builder.insert_element(nothing, few, i32(0))
        everywhere = builder.shuffle_vector(first, nothing, lanes([0] * self.size))
        return builder.icmp_signed("<", lanes(list(range(self.size))), everywhere)
