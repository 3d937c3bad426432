"""What kernels need and Numba does not offer: products held in registers, cheap tiny numbers.

An intrinsic writes LLVM code into the kernel that calls it, for the shapes it is called with.
"""

from __future__ import annotations

import platform
from collections.abc import Callable
from typing import Any, NamedTuple

from llvmlite import binding, ir
from numba import types
from numba.core import cgutils
from numba.extending import intrinsic

WIDE = 4 if binding.get_host_cpu_features().get("avx512f") else 1
"""Full vectors (64 bytes) that four rows of a tile span: as many as registers can hold."""

_ON_X86 = platform.machine().lower() in ("x86_64", "amd64")
_FLUSH = 0x8040
"""The bits of x86's control register that turn denormal results and operands into zeros."""

_WORD = ir.IntType(64)
_SHORT = ir.IntType(32)


class Matrix(NamedTuple):
    """A matrix inside a flat array: element (r, k) is numbers[at + r * row + k * step]."""

    numbers: Any
    at: Any
    row: Any
    step: Any = 1


@intrinsic
def tile(typing, c, a, b, start, depth, floor, late, rows, vectors, size):
    """C = max(floor, start + A B) for a block of C that fits into registers; NaN stays NaN.

    Sums go through the depth in order, beginning with `start`; or with 0 and `start` is added last.

    Args:
        typing: Numba's.
        c: Matrix to write to; its step is 1, as are those of `b` and `start`.
        a: Matrix, possibly a transposed one.
        b: Matrix.
        start: Matrix; a row of 0 adds the same to every row.
        depth: Columns of A, rows of B.
        floor: Number of C's kind.
        late: Whether `start` is added last.
        rows: Rows of the block, a constant.
        vectors: Vectors that a row of it spans, a constant.
        size: Bytes of a vector, a constant.
    """
    literals = (rows, vectors, size)
    if not all(isinstance(literal, types.IntegerLiteral) for literal in literals):
        return None
    shape = tuple(literal.literal_value for literal in literals)

    def generate(context, builder, signature, values):
        _Tile(context, builder, signature.args, values, *shape).write()
        return context.get_dummy_value()

    return types.void(c, a, b, start, types.int64, floor, types.boolean, *literals), generate


class _Tile:
    """Writes the code of one tile: accumulators as values of a loop over the depth."""

    def __init__(
        self,
        context: Any,
        builder: Any,
        kinds: Any,
        values: Any,
        rows: int,
        vectors: int,
        size: int,
    ) -> None:
        self.builder = builder
        self.rows, self.vectors = range(rows), range(vectors)
        number = kinds[0].types[0].dtype
        self.lanes = size * 8 // number.bitwidth
        self.align = number.bitwidth // 8
        self.vector = ir.VectorType(context.get_data_type(number), self.lanes)
        name = f"llvm.fma.v{self.lanes}f{number.bitwidth}"
        kind = ir.FunctionType(self.vector, [self.vector] * 3)
        self.fma = cgutils.get_or_insert_function(builder.module, kind, name)

        self.c, self.a, self.b, self.start = (
            _matrix(context, builder, kinds[i], values[i]) for i in range(4)
        )
        self.depth, self.floor, self.late = values[4:7]

    def write(self) -> None:
        """Begin sums, go through the depth, store the block."""
        builder = self.builder
        nothing = ir.Constant(self.vector, None)
        begun = self._each(lambda r, v: builder.select(self.late, nothing, self._start(r, v)))
        a_rows = [self._row(self.a, r) for r in self.rows]
        loop = builder.append_basic_block("tile.depth")
        done = builder.append_basic_block("tile.done")
        entry = builder.block
        builder.cbranch(builder.icmp_signed(">", self.depth, _number(0)), loop, done)

        builder.position_at_end(loop)
        k = builder.phi(_WORD)
        k.add_incoming(_number(0), entry)
        sums = self._each(lambda r, v: self._merge((begun[r][v], entry)))
        b_place = builder.add(self.b.at, builder.mul(k, self.b.row))
        right = [self._load(self.b, self._past(b_place, v)) for v in self.vectors]
        a_shift = builder.mul(k, self.a.step)
        left = [self._spread(self._number(builder.add(place, a_shift))) for place in a_rows]
        more = self._each(lambda r, v: builder.call(self.fma, [left[r], right[v], sums[r][v]]))
        following = builder.add(k, _number(1))
        k.add_incoming(following, loop)
        self._each(lambda r, v: sums[r][v].add_incoming(more[r][v], loop))
        builder.cbranch(builder.icmp_signed("<", following, self.depth), loop, done)

        builder.position_at_end(done)
        ends = self._each(lambda r, v: self._merge((begun[r][v], entry), (more[r][v], loop)))
        with builder.if_then(self.late, likely=False):
            added = self._each(lambda r, v: builder.fadd(ends[r][v], self._start(r, v)))
            adding = builder.block
        sums = self._each(lambda r, v: self._merge((ends[r][v], done), (added[r][v], adding)))
        floor = self._spread(self.floor)
        above = self._each(lambda r, v: self._above(floor, sums[r][v]))
        self._each(lambda r, v: self._store(above[r][v], self._place(self.c, r, v)))

    def _each(self, make: Callable[[int, int], Any]) -> list[list[Any]]:
        return [[make(r, v) for v in self.vectors] for r in self.rows]

    def _start(self, row: int, vector: int) -> Any:
        return self._load(self.start, self._place(self.start, row, vector))

    def _merge(self, *incoming: tuple[Any, Any]) -> Any:
        phi = self.builder.phi(self.vector)
        for value, block in incoming:
            phi.add_incoming(value, block)
        return phi

    def _row(self, matrix: Matrix, row: int) -> Any:
        return self.builder.add(matrix.at, self.builder.mul(_number(row), matrix.row))

    def _past(self, at: Any, vector: int) -> Any:
        return self.builder.add(at, _number(vector * self.lanes))

    def _place(self, matrix: Matrix, row: int, vector: int) -> Any:
        return self._past(self._row(matrix, row), vector)

    def _pointer(self, matrix: Matrix, at: Any) -> Any:
        place = self.builder.gep(matrix.numbers, [at])
        return self.builder.bitcast(place, self.vector.as_pointer())

    def _load(self, matrix: Matrix, at: Any) -> Any:
        return self.builder.load(self._pointer(matrix, at), align=self.align)

    def _store(self, value: Any, at: Any) -> None:
        self.builder.store(value, self._pointer(self.c, at), align=self.align)

    def _number(self, at: Any) -> Any:
        """One number of A."""
        return self.builder.load(self.builder.gep(self.a.numbers, [at]))

    def _above(self, floor: Any, values: Any) -> Any:
        below = self.builder.fcmp_ordered("<", values, floor)
        return self.builder.select(below, floor, values)

    def _spread(self, number: Any) -> Any:
        """One number in every lane."""
        nothing = ir.Constant(self.vector, ir.Undefined)
        first = self.builder.insert_element(nothing, number, _short(0))
        return self.builder.shuffle_vector(first, nothing, _lanes([0] * self.lanes))


@intrinsic
def turn(typing, target, source, size):
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
def turn_part(typing, target, source, rows, columns, size):
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
        self.target, self.source = (_matrix(context, builder, kinds[i], values[i]) for i in (0, 1))
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
                        self.builder.shuffle_vector(*pair, _lanes(chosen))
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
        at = self.builder.add(matrix.at, self.builder.mul(_number(row), matrix.row))
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
        arguments = [pointer, _SHORT, self.flags]
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
        return self.builder.call(self.masked_load, [place, _short(self.align), flags, nothing])

    def _store(self, vector: Any, row: int) -> None:
        place = self._place(self.target, row)
        flags = self._among(row, self.columns, self.rows)
        self.builder.call(self.masked_store, [vector, place, _short(self.align), flags])

    def _among(self, row: int, rows: Any, columns: Any) -> Any:
        """Which numbers of a row are among so many rows and columns."""
        builder = self.builder
        count = builder.select(builder.icmp_signed("<", _number(row), rows), columns, _number(0))
        few = builder.trunc(count, _SHORT)
        nothing = ir.Constant(ir.VectorType(_SHORT, self.size), ir.Undefined)
        first = builder.insert_element(nothing, few, _short(0))
        everywhere = builder.shuffle_vector(first, nothing, _lanes([0] * self.size))
        return builder.icmp_signed("<", _lanes(list(range(self.size))), everywhere)


def _lanes(chosen: list[int]) -> Any:
    return ir.Constant(ir.VectorType(_SHORT, len(chosen)), chosen)


def _matrix(context: Any, builder: Any, kind: Any, value: Any) -> Matrix:
    """A Matrix argument, with a pointer to its numbers."""
    array, *places = (builder.extract_value(value, field) for field in range(4))
    return Matrix(context.make_array(kind.types[0])(context, builder, array).data, *places)


def _number(value: int) -> Any:
    return ir.Constant(_WORD, value)


def _short(value: int) -> Any:
    return ir.Constant(_SHORT, value)


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
