"""Blocks of matrices with rows and columns exchanged, within registers."""

from __future__ import annotations

from typing import Any

from llvmlite import ir
from numba import types
from numba.core import cgutils
from numba.extending import intrinsic

from briskrl.fused.kernels.gemm_tile import SHORT, Matrix, lanes, matrix_of, short, word


@intrinsic
def transpose(typing, target, source, size):
    """Write a square block of `source` into `target` with rows and columns exchanged.

    Args:
        typing: Numba's.
        target: Matrix; its step is 1, as is that of `source`.
        source: Matrix.
        size: Rows and columns of the block, a constant and a power of two.
    """
    if not isinstance(size, types.IntegerLiteral):
        return None

    def generate(context, builder, signature, values):
        _Turn(context, builder, signature.args, values, size.literal_value).write()
        return context.get_dummy_value()

    return types.void(target, source, size), generate


@intrinsic
def transpose_edge(typing, target, source, rows, columns, size):
    """The same for a block of fewer rows and columns than `size`: nothing else is touched."""
    if not isinstance(size, types.IntegerLiteral):
        return None

    def generate(context, builder, signature, values):
        _TurnPart(context, builder, signature.args, values, size.literal_value).write()
        return context.get_dummy_value()

    return types.void(target, source, types.int64, types.int64, size), generate


class _Turn:
    """Writes the code that turns a block, all within registers."""

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
            # Lanes are numbered through both operands: those of the second begin at `size`.
            upper = [lane if not lane & half else size + lane - half for lane in range(size)]
            lower = [lane + half if not lane & half else size + lane for lane in range(size)]
            for row in range(size):
                if not row & half:
                    pair = rows[row], rows[row + half]
                    rows[row], rows[row + half] = (
                        self.builder.shuffle_vector(*pair, lanes(chosen))
                        for chosen in (upper, lower)
                    )
            half *= 2
        for row in range(size):
            self._store(rows[row], row)

    def _load(self, row: int) -> Any:
        return self.builder.load(self._place(self.source, row), align=self.align)

    def _store(self, vector: Any, row: int) -> None:
        self.builder.store(vector, self._place(self.target, row), align=self.align)

    def _place(self, matrix: Matrix, row: int) -> Any:
        at = self.builder.add(matrix.at, self.builder.mul(word(row), matrix.row))
        return self.builder.bitcast(
            self.builder.gep(matrix.numbers, [at]), self.vector.as_pointer()
        )


class _TurnPart(_Turn):
    """Leaves out what is not among the block's rows and columns."""

    def __init__(self, context: Any, builder: Any, kinds: Any, values: Any, size: int) -> None:
        super().__init__(context, builder, kinds, values, size)
        self.rows, self.columns = values[2:4]
        self.flags = ir.VectorType(ir.IntType(1), size)
        pointer = self.vector.as_pointer()
        arguments = [pointer, SHORT, self.flags]
        self.masked_load = self._intrinsic("load", self.vector, [*arguments, self.vector])
        self.masked_store = self._intrinsic("store", ir.VoidType(), [self.vector, *arguments])

    def _intrinsic(self, what: str, result: Any, arguments: list[Any]) -> Any:
        bits = 8 * self.align
        name = f"llvm.masked.{what}.v{self.size}f{bits}.p0"
        kind = ir.FunctionType(result, arguments)
        return cgutils.get_or_insert_function(self.builder.module, kind, name)

    def _load(self, row: int) -> Any:
        place = self._place(self.source, row)
        nothing = ir.Constant(self.vector, None)
        flags = self._among(row, self.rows, self.columns)
        return self.builder.call(self.masked_load, [place, short(self.align), flags, nothing])

    def _store(self, vector: Any, row: int) -> None:
        place = self._place(self.target, row)
        flags = self._among(row, self.columns, self.rows)
        self.builder.call(self.masked_store, [vector, place, short(self.align), flags])

    def _among(self, row: int, rows: Any, columns: Any) -> Any:
        """Which numbers of a row are among so many rows and columns."""
        builder = self.builder
        count = builder.select(builder.icmp_signed("<", word(row), rows), columns, word(0))
        few = builder.trunc(count, SHORT)
        nothing = ir.Constant(ir.VectorType(SHORT, self.size), ir.Undefined)
        first = builder.insert_element(nothing, few, short(0))
        everywhere = builder.shuffle_vector(first, nothing, lanes([0] * self.size))
        return builder.icmp_signed("<", lanes(list(range(self.size))), everywhere)
