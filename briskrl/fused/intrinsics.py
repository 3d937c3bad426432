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


LINEAR, RELU, TANH = range(3)
"""Activations."""


class Matrix(NamedTuple):
    """A matrix inside a flat array: element (r, k) is numbers[at + r * row + k * step]."""

    numbers: Any
    at: Any
    row: Any
    step: Any = 1


class Floored(NamedTuple):
    """An ending of sums: those below a number of their own kind become it."""

    floor: Any


class Late(NamedTuple):
    """An ending of sums: what they would have begun with is added last."""


class Sloped(NamedTuple):
    """An ending of sums: they are multiplied with the slope of an activation."""

    activation: Any
    results: Any
    """What the activation made, an array that is laid out as the one of C; tells its slope."""


@intrinsic
def tile(typing, c, a, b, start, depth, ending, rows, vectors, size):
    """C = start + A B for a block of C that fits into registers; NaN stays NaN.

    Sums go through the depth in order.

    Args:
        typing: Numba's.
        c: Matrix to write to; its step is 1, as are those of `b` and `start`.
        a: Matrix, possibly a transposed one.
        b: Matrix.
        start: Matrix; a row of 0 adds the same to every row.
        depth: Columns of A, rows of B.
        ending: What becomes of sums before they are stored: Floored, Late or Sloped.
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

    return types.void(c, a, b, start, types.int64, ending, *literals), generate


@intrinsic
def dots(typing, c, a, b, start, depth, rows, columns, size):
    """C = start + A B' for a block of few columns; every number is a product of two rows.

    Sums go through the depth lane by lane, then these are added up.

    Args:
        typing: Numba's.
        c: Matrix to write to.
        a: Matrix; its step is 1, as is that of `b`.
        b: Matrix.
        start: Matrix; a row of 0 adds the same to every row.
        depth: Columns of A and B, whole vectors of them.
        rows: Rows of the block, a constant.
        columns: Columns of the block, a constant.
        size: Bytes of a vector, a constant.
    """
    literals = (rows, columns, size)
    if not all(isinstance(literal, types.IntegerLiteral) for literal in literals):
        return None
    shape = tuple(literal.literal_value for literal in literals)

    def generate(context, builder, signature, values):
        _Dots(context, builder, signature.args, values, *shape).write()
        return context.get_dummy_value()

    return types.void(c, a, b, start, types.int64, *literals), generate


class _Block:
    """Writes the code of a block of sums: accumulators as values of a loop over the depth."""

    def __init__(
        self,
        context: Any,
        builder: Any,
        kinds: Any,
        values: Any,
        rows: int,
        columns: int,
        size: int,
    ) -> None:
        self.builder = builder
        self.rows, self.columns = range(rows), range(columns)
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
        self.depth = values[4]

    def _sum(self, begun: Any, step: int, factors: Callable[[Any], tuple[Any, Any]]) -> Any:
        """Go through the depth in so long steps, adding factors of rows times those of columns."""
        builder = self.builder
        loop = builder.append_basic_block("block.depth")
        done = builder.append_basic_block("block.done")
        entry = builder.block
        builder.cbranch(builder.icmp_signed(">", self.depth, _number(0)), loop, done)

        builder.position_at_end(loop)
        k = builder.phi(_WORD)
        k.add_incoming(_number(0), entry)
        sums = self._each(lambda r, v: self._merge((begun[r][v], entry)))
        left, right = factors(k)
        more = self._each(lambda r, v: builder.call(self.fma, [left[r], right[v], sums[r][v]]))
        following = builder.add(k, _number(step))
        k.add_incoming(following, loop)
        self._each(lambda r, v: sums[r][v].add_incoming(more[r][v], loop))
        builder.cbranch(builder.icmp_signed("<", following, self.depth), loop, done)

        builder.position_at_end(done)
        return self._each(lambda r, v: self._merge((begun[r][v], entry), (more[r][v], loop)))

    def _each(self, make: Callable[[int, int], Any]) -> list[list[Any]]:
        return [[make(r, v) for v in self.columns] for r in self.rows]

    def _merge(self, *incoming: tuple[Any, Any]) -> Any:
        phi = self.builder.phi(self.vector)
        for value, block in incoming:
            phi.add_incoming(value, block)
        return phi

    def _row(self, matrix: Matrix, row: int) -> Any:
        return self.builder.add(matrix.at, self.builder.mul(_number(row), matrix.row))

    def _pointer(self, matrix: Matrix, at: Any) -> Any:
        place = self.builder.gep(matrix.numbers, [at])
        return self.builder.bitcast(place, self.vector.as_pointer())

    def _load(self, matrix: Matrix, at: Any) -> Any:
        return self.builder.load(self._pointer(matrix, at), align=self.align)


class _Dots(_Block):
    """Writes the code of a block of dot products."""

    def write(self) -> None:
        """Sum up by lanes, add up the lanes, store the block."""
        nothing = ir.Constant(self.vector, None)
        sums = self._sum(self._each(lambda r, v: nothing), self.lanes, self._factors)
        kind = ir.FunctionType(self.vector.element, [self.vector.element, self.vector])
        name = f"llvm.vector.reduce.fadd.v{self.lanes}f{8 * self.align}"
        add_up = cgutils.get_or_insert_function(self.builder.module, kind, name)
        for r in self.rows:
            for column in self.columns:
                begin = self.builder.load(self._element(self.start, r, column))
                total = self.builder.call(add_up, [begin, sums[r][column]], fastmath=("reassoc",))
                self.builder.store(total, self._element(self.c, r, column))

    def _factors(self, k: Any) -> tuple[list[Any], list[Any]]:
        return (
            [self._load(self.a, self.builder.add(self._row(self.a, r), k)) for r in self.rows],
            [self._load(self.b, self.builder.add(self._row(self.b, v), k)) for v in self.columns],
        )

    def _element(self, matrix: Matrix, row: int, column: int) -> Any:
        at = self.builder.add(self._row(matrix, row), _number(column))
        return self.builder.gep(matrix.numbers, [at])


class _Tile(_Block):
    """Writes the code of one tile."""

    def __init__(self, context: Any, builder: Any, kinds: Any, values: Any, *shape: int) -> None:
        super().__init__(context, builder, kinds, values, *shape)
        self.ending = kinds[5].instance_class
        if self.ending is Floored:
            self.floor = builder.extract_value(values[5], 0)
        elif self.ending is Sloped:
            self.activation = builder.extract_value(values[5], 0)
            results = builder.extract_value(values[5], 1)
            self.results = _numbers(context, builder, kinds[5].types[1], results)

    def write(self) -> None:
        """Begin sums, go through the depth, store the block."""
        nothing = ir.Constant(self.vector, None)
        begun = self._each(lambda r, v: nothing if self.ending is Late else self._start(r, v))
        self._end(self._sum(begun, 1, self._factors))

    def _factors(self, k: Any) -> tuple[list[Any], list[Any]]:
        builder = self.builder
        b_place = builder.add(self.b.at, builder.mul(k, self.b.row))
        right = [self._load(self.b, self._past(b_place, v)) for v in self.columns]
        a_shift = builder.mul(k, self.a.step)
        places = [builder.add(self._row(self.a, r), a_shift) for r in self.rows]
        return [self._spread(self._number(place)) for place in places], right

    def _end(self, sums: list[list[Any]]) -> None:
        """Store the block as the ending wants it."""
        builder = self.builder
        if self.ending is Floored:
            floor = self._spread(self.floor)
            self._store_each(lambda r, v: self._above(floor, sums[r][v]))
        elif self.ending is Late:
            self._store_each(lambda r, v: builder.fadd(sums[r][v], self._start(r, v)))
        else:
            with builder.if_else(self._is(TANH)) as (is_tanh, is_not):
                with is_tanh:
                    self._store_each(lambda r, v: self._times_slope_of_tanh(r, v, sums[r][v]))
                with is_not, builder.if_else(self._is(RELU)) as (is_relu, is_linear):
                    with is_relu:
                        self._store_each(lambda r, v: self._times_slope_of_relu(r, v, sums[r][v]))
                    with is_linear:
                        self._store_each(lambda r, v: sums[r][v])

    def _store_each(self, make: Callable[[int, int], Any]) -> None:
        # All of them are made before the first is stored, which `start` may share its place with.
        made = self._each(make)
        self._each(lambda r, v: self._store(made[r][v], self._place(self.c, r, v)))

    def _is(self, activation: int) -> Any:
        return self.builder.icmp_signed("==", self.activation, _number(activation))

    def _times_slope_of_tanh(self, row: int, vector: int, value: Any) -> Any:
        """For y = tanh x, y' = 1 - y^2."""
        y = self._result(row, vector)
        one = self._spread(ir.Constant(self.vector.element, 1.0))
        return self.builder.fmul(value, self.builder.call(self.fma, [self.builder.fneg(y), y, one]))

    def _times_slope_of_relu(self, row: int, vector: int, value: Any) -> Any:
        """For y = max(0, x), y' = 1 where y > 0."""
        nothing = ir.Constant(self.vector, None)
        fires = self.builder.fcmp_ordered(">", self._result(row, vector), nothing)
        return self.builder.select(fires, value, nothing)

    def _result(self, row: int, vector: int) -> Any:
        return self._load(self.c._replace(numbers=self.results), self._place(self.c, row, vector))

    def _start(self, row: int, vector: int) -> Any:
        return self._load(self.start, self._place(self.start, row, vector))

    def _past(self, at: Any, vector: int) -> Any:
        return self.builder.add(at, _number(vector * self.lanes))

    def _place(self, matrix: Matrix, row: int, vector: int) -> Any:
        return self._past(self._row(matrix, row), vector)

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
    return Matrix(_numbers(context, builder, kind.types[0], array), *places)


def _numbers(context: Any, builder: Any, kind: Any, array: Any) -> Any:
    """A pointer to an array's numbers."""
    return context.make_array(kind)(context, builder, array).data


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
