"""Blocks of matrix products in registers.

An intrinsic generates LLVM IR in the kernel that calls it, for the shapes it is called with.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

from llvmlite import binding, ir
from numba import types
from numba.core import cgutils
from numba.extending import intrinsic

WIDE = 4 if binding.get_host_cpu_features().get("avx512f") else 1
"""Full vectors (64 bytes) per row of a tile with four rows: as many as registers can hold."""

I64 = ir.IntType(64)
I32 = ir.IntType(32)

LINEAR, RELU, TANH = range(3)
"""Activations."""


class Matrix(NamedTuple):
    """A matrix in a flat array: element (r, k) is data[offset + r * stride + k * step]."""

    data: Any
    offset: Any
    stride: Any
    step: Any = 1


class ReluEpilogue(NamedTuple):
    """Sums below the floor, of the same dtype, are replaced by it."""

    floor: Any


class AddEpilogue(NamedTuple):
    """The initial values are added to the sums last."""


class ActivationGradEpilogue(NamedTuple):
    """Sums are multiplied with the gradient of an activation."""

    activation: Any
    results: Any
    """Outputs of the activation, an array with the layout of the one of C."""


@intrinsic
def tile(typing, c, a, b, start, depth, epilogue, rows, vectors, size):
    """C = start + A B for a block of C that fits into registers; NaN stays NaN.

    Sums go through the depth in order.

    Args:
        typing: Numba's.
        c: Matrix to write to; its step is 1, as are those of `b` and `start`.
        a: Matrix, possibly a transposed one.
        b: Matrix.
        start: Matrix; a stride of 0 adds the same to every row.
        depth: Columns of A, rows of B.
        epilogue: What happens to sums before they are stored, one of the above.
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

    return types.void(c, a, b, start, types.int64, epilogue, rows, vectors, size), generate


@intrinsic
def dots(typing, c, a, b, start, depth, rows, columns, size):
    """C = start + A B' for a block of few columns; every element is a dot product of two rows.

    Sums go through the depth lane by lane, then lanes are added up.

    Args:
        typing: Numba's.
        c: Matrix to write to.
        a: Matrix; its step is 1, as is that of `b`.
        b: Matrix.
        start: Matrix; a stride of 0 adds the same to every row.
        depth: Columns of A and B, a multiple of the vector length.
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
    """Generates a block of sums: a loop over the depth with accumulators in registers."""

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

    def _sum(self, initial: Any, step: int, factors: Callable[[Any], tuple[Any, Any]]) -> Any:
        """Loop over the depth in steps, adding factors of rows times those of columns."""
        builder = self.builder
        loop = builder.append_basic_block("block.depth")
        done = builder.append_basic_block("block.done")
        entry = builder.block
        builder.cbranch(builder.icmp_signed(">", self.depth, i64(0)), loop, done)

        builder.position_at_end(loop)
        k = builder.phi(I64)
        k.add_incoming(i64(0), entry)
        sums = self._each(lambda r, v: self._merge((initial[r][v], entry)))
        left, right = factors(k)
        more = self._each(lambda r, v: builder.call(self.fma, [left[r], right[v], sums[r][v]]))
        following = builder.add(k, i64(step))
        k.add_incoming(following, loop)
        self._each(lambda r, v: sums[r][v].add_incoming(more[r][v], loop))
        builder.cbranch(builder.icmp_signed("<", following, self.depth), loop, done)

        builder.position_at_end(done)
        return self._each(lambda r, v: self._merge((initial[r][v], entry), (more[r][v], loop)))

    def _each(self, make: Callable[[int, int], Any]) -> list[list[Any]]:
        return [[make(r, v) for v in self.columns] for r in self.rows]

    def _merge(self, *incoming: tuple[Any, Any]) -> Any:
        phi = self.builder.phi(self.vector)
        for value, block in incoming:
            phi.add_incoming(value, block)
        return phi

    def _row(self, matrix: Matrix, row: int) -> Any:
        return self.builder.add(matrix.offset, self.builder.mul(i64(row), matrix.stride))

    def _pointer(self, matrix: Matrix, offset: Any) -> Any:
        element = self.builder.gep(matrix.data, [offset])
        return self.builder.bitcast(element, self.vector.as_pointer())

    def _load(self, matrix: Matrix, offset: Any) -> Any:
        return self.builder.load(self._pointer(matrix, offset), align=self.align)


class _Dots(_Block):
    """Generates a block of dot products."""

    def write(self) -> None:
        """Sum by lanes, add up the lanes, store the block."""
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
        offset = self.builder.add(self._row(matrix, row), i64(column))
        return self.builder.gep(matrix.data, [offset])


class _Tile(_Block):
    """Generates one tile."""

    def __init__(self, context: Any, builder: Any, kinds: Any, values: Any, *shape: int) -> None:
        super().__init__(context, builder, kinds, values, *shape)
        self.epilogue = kinds[5].instance_class
        if self.epilogue is ReluEpilogue:
            self.floor = builder.extract_value(values[5], 0)
        elif self.epilogue is ActivationGradEpilogue:
            self.activation = builder.extract_value(values[5], 0)
            results = builder.extract_value(values[5], 1)
            self.results = data_of(context, builder, kinds[5].types[1], results)

    def write(self) -> None:
        """Load the initial values, loop over the depth, store the block."""
        nothing = ir.Constant(self.vector, None)
        initial = self._each(
            lambda r, v: nothing if self.epilogue is AddEpilogue else self._start(r, v)
        )
        self._end(self._sum(initial, 1, self._factors))

    def _factors(self, k: Any) -> tuple[list[Any], list[Any]]:
        builder = self.builder
        b_offset = builder.add(self.b.offset, builder.mul(k, self.b.stride))
        right = [self._load(self.b, self._past(b_offset, v)) for v in self.columns]
        a_shift = builder.mul(k, self.a.step)
        offsets = [builder.add(self._row(self.a, r), a_shift) for r in self.rows]
        return [self._broadcast(self._element_of_a(offset)) for offset in offsets], right

    def _end(self, sums: list[list[Any]]) -> None:
        """Apply the epilogue and store the block."""
        builder = self.builder
        if self.epilogue is ReluEpilogue:
            floor = self._broadcast(self.floor)
            self._store_each(lambda r, v: self._at_least(floor, sums[r][v]))
        elif self.epilogue is AddEpilogue:
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
        # All are computed before the first is stored: `start` may be the same memory as C.
        values = self._each(make)
        self._each(lambda r, v: self._store(values[r][v], self._offset_of(self.c, r, v)))

    def _is(self, activation: int) -> Any:
        return self.builder.icmp_signed("==", self.activation, i64(activation))

    def _times_tanh_grad(self, row: int, vector: int, value: Any) -> Any:
        """For y = tanh x, y' = 1 - y^2."""
        y = self._result(row, vector)
        one = self._broadcast(ir.Constant(self.vector.element, 1.0))
        return self.builder.fmul(value, self.builder.call(self.fma, [self.builder.fneg(y), y, one]))

    def _times_relu_grad(self, row: int, vector: int, value: Any) -> Any:
        """For y = max(0, x), y' = 1 where y > 0."""
        nothing = ir.Constant(self.vector, None)
        is_active = self.builder.fcmp_ordered(">", self._result(row, vector), nothing)
        return self.builder.select(is_active, value, nothing)

    def _result(self, row: int, vector: int) -> Any:
        return self._load(self.c._replace(data=self.results), self._offset_of(self.c, row, vector))

    def _start(self, row: int, vector: int) -> Any:
        return self._load(self.start, self._offset_of(self.start, row, vector))

    def _past(self, offset: Any, vector: int) -> Any:
        return self.builder.add(offset, i64(vector * self.lanes))

    def _offset_of(self, matrix: Matrix, row: int, vector: int) -> Any:
        return self._past(self._row(matrix, row), vector)

    def _store(self, value: Any, offset: Any) -> None:
        self.builder.store(value, self._pointer(self.c, offset), align=self.align)

    def _element_of_a(self, offset: Any) -> Any:
        """One element of A."""
        return self.builder.load(self.builder.gep(self.a.data, [offset]))

    def _at_least(self, floor: Any, values: Any) -> Any:
        below = self.builder.fcmp_ordered("<", values, floor)
        return self.builder.select(below, floor, values)

    def _broadcast(self, number: Any) -> Any:
        """A vector with a number in every lane."""
        nothing = ir.Constant(self.vector, ir.Undefined)
        first = self.builder.insert_element(nothing, number, i32(0))
        return self.builder.shuffle_vector(first, nothing, lanes([0] * self.lanes))


def constants(*kinds: Any) -> tuple[int, ...] | None:
    """The values of arguments, if all of them are integer constants."""
    if not all(isinstance(kind, types.IntegerLiteral) for kind in kinds):
        return None
    return tuple(kind.literal_value for kind in kinds)


def lanes(indices: list[int]) -> Any:
    """A constant vector of lane indices."""
    return ir.Constant(ir.VectorType(I32, len(indices)), indices)


def matrix_of(context: Any, builder: Any, kind: Any, value: Any) -> Matrix:
    """A Matrix argument, with a pointer to its data."""
    array, *rest = (builder.extract_value(value, field) for field in range(4))
    return Matrix(data_of(context, builder, kind.types[0], array), *rest)


def data_of(context: Any, builder: Any, kind: Any, array: Any) -> Any:
    """A pointer to an array's data."""
    return context.make_array(kind)(context, builder, array).data


def i64(value: int) -> Any:
    """A constant of 64 bits."""
    return ir.Constant(I64, value)


def i32(value: int) -> Any:
    """A constant of 32 bits."""
    return ir.Constant(I32, value)
