"""Products held in registers.

An intrinsic writes LLVM code into the kernel that calls it, for the shapes it is called with.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

from llvmlite import binding, ir
from numba import types
from numba.core import cgutils
from numba.extending import intrinsic

WIDE = 4 if binding.get_host_cpu_features().get("avx512f") else 1
"""Full vectors (64 bytes) that four rows of a tile span: as many as registers can hold."""

WORD = ir.IntType(64)
SHORT = ir.IntType(32)

LINEAR, RELU, TANH = range(3)
"""Activations."""


class Matrix(NamedTuple):
    """A matrix inside a flat array: element (r, k) is numbers[at + r * row + k * step]."""

    numbers: Any
    at: Any
    row: Any
    step: Any = 1


class ReluEpilogue(NamedTuple):
    """An ending of sums: those below a number of their own kind become it."""

    floor: Any


class AddEpilogue(NamedTuple):
    """An ending of sums: what they would have begun with is added last."""


class ActivationGradEpilogue(NamedTuple):
    """An ending of sums: they are multiplied with the grad of an activation."""

    activation: Any
    results: Any
    """What the activation made, an array that is laid out as the one of C; tells its grad."""


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
        ending: What becomes of sums before they are stored: an epilogue, one of the above.
        rows: Rows of the block, a constant.
        vectors: Vectors that a row of it spans, a constant.
        size: Bytes of a vector, a constant.
    """
    shape = constants(rows, vectors, size)
    if shape is None:
        return None

    def generate(context, builder, signature, values):
        _Tile(context, builder, signature.args, values, *shape).write()
        return context.get_dummy_value()

    return types.void(c, a, b, start, types.int64, ending, rows, vectors, size), generate


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
    shape = constants(rows, columns, size)
    if shape is None:
        return None

    def generate(context, builder, signature, values):
        _Dots(context, builder, signature.args, values, *shape).write()
        return context.get_dummy_value()

    return types.void(c, a, b, start, types.int64, rows, columns, size), generate


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
            matrix_of(context, builder, kinds[i], values[i]) for i in range(4)
        )
        self.depth = values[4]

    def _sum(self, begun: Any, step: int, factors: Callable[[Any], tuple[Any, Any]]) -> Any:
        """Go through the depth in so long steps, adding factors of rows times those of columns."""
        builder = self.builder
        loop = builder.append_basic_block("block.depth")
        done = builder.append_basic_block("block.done")
        entry = builder.block
        builder.cbranch(builder.icmp_signed(">", self.depth, word(0)), loop, done)

        builder.position_at_end(loop)
        k = builder.phi(WORD)
        k.add_incoming(word(0), entry)
        sums = self._each(lambda r, v: self._merge((begun[r][v], entry)))
        left, right = factors(k)
        more = self._each(lambda r, v: builder.call(self.fma, [left[r], right[v], sums[r][v]]))
        following = builder.add(k, word(step))
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
        return self.builder.add(matrix.at, self.builder.mul(word(row), matrix.row))

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
        at = self.builder.add(self._row(matrix, row), word(column))
        return self.builder.gep(matrix.numbers, [at])


class _Tile(_Block):
    """Writes the code of one tile."""

    def __init__(self, context: Any, builder: Any, kinds: Any, values: Any, *shape: int) -> None:
        super().__init__(context, builder, kinds, values, *shape)
        self.ending = kinds[5].instance_class
        if self.ending is ReluEpilogue:
            self.floor = builder.extract_value(values[5], 0)
        elif self.ending is ActivationGradEpilogue:
            self.activation = builder.extract_value(values[5], 0)
            results = builder.extract_value(values[5], 1)
            self.results = numbers_of(context, builder, kinds[5].types[1], results)

    def write(self) -> None:
        """Begin sums, go through the depth, store the block."""
        nothing = ir.Constant(self.vector, None)
        begun = self._each(
            lambda r, v: nothing if self.ending is AddEpilogue else self._start(r, v)
        )
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
        if self.ending is ReluEpilogue:
            floor = self._spread(self.floor)
            self._store_each(lambda r, v: self._above(floor, sums[r][v]))
        elif self.ending is AddEpilogue:
            self._store_each(lambda r, v: builder.fadd(sums[r][v], self._start(r, v)))
        else:
            with builder.if_else(self._is(TANH)) as (is_tanh, is_not):
                with is_tanh:
                    self._store_each(lambda r, v: self._times_tanh_grad(r, v, sums[r][v]))
                with is_not, builder.if_else(self._is(RELU)) as (is_relu, is_linear):
                    with is_relu:
                        self._store_each(lambda r, v: self._times_relu_grad(r, v, sums[r][v]))
                    with is_linear:
                        self._store_each(lambda r, v: sums[r][v])

    def _store_each(self, make: Callable[[int, int], Any]) -> None:
        # All of them are made before the first is stored, which `start` may share its place with.
        made = self._each(make)
        self._each(lambda r, v: self._store(made[r][v], self._place(self.c, r, v)))

    def _is(self, activation: int) -> Any:
        return self.builder.icmp_signed("==", self.activation, word(activation))

    def _times_tanh_grad(self, row: int, vector: int, value: Any) -> Any:
        """For y = tanh x, y' = 1 - y^2."""
        y = self._result(row, vector)
        one = self._spread(ir.Constant(self.vector.element, 1.0))
        return self.builder.fmul(value, self.builder.call(self.fma, [self.builder.fneg(y), y, one]))

    def _times_relu_grad(self, row: int, vector: int, value: Any) -> Any:
        """For y = max(0, x), y' = 1 where y > 0."""
        nothing = ir.Constant(self.vector, None)
        fires = self.builder.fcmp_ordered(">", self._result(row, vector), nothing)
        return self.builder.select(fires, value, nothing)

    def _result(self, row: int, vector: int) -> Any:
        return self._load(self.c._replace(numbers=self.results), self._place(self.c, row, vector))

    def _start(self, row: int, vector: int) -> Any:
        return self._load(self.start, self._place(self.start, row, vector))

    def _past(self, at: Any, vector: int) -> Any:
        return self.builder.add(at, word(vector * self.lanes))

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
        first = self.builder.insert_element(nothing, number, short(0))
        return self.builder.shuffle_vector(first, nothing, lanes([0] * self.lanes))


def constants(*kinds: Any) -> tuple[int, ...] | None:
    """What arguments are, if all of them are whole numbers that are known beforehand."""
    if not all(isinstance(kind, types.IntegerLiteral) for kind in kinds):
        return None
    return tuple(kind.literal_value for kind in kinds)


def lanes(chosen: list[int]) -> Any:
    """A constant vector of lanes' numbers."""
    return ir.Constant(ir.VectorType(SHORT, len(chosen)), chosen)


def matrix_of(context: Any, builder: Any, kind: Any, value: Any) -> Matrix:
    """A Matrix argument, with a pointer to its numbers."""
    array, *places = (builder.extract_value(value, field) for field in range(4))
    return Matrix(numbers_of(context, builder, kind.types[0], array), *places)


def numbers_of(context: Any, builder: Any, kind: Any, array: Any) -> Any:
    """A pointer to an array's numbers."""
    return context.make_array(kind)(context, builder, array).data


def word(value: int) -> Any:
    """A constant of 64 bits."""
    return ir.Constant(WORD, value)


def short(value: int) -> Any:
    """A constant of 32 bits."""
    return ir.Constant(SHORT, value)
