"""Products and transposes against numpy."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from briskrl.compiler.jit import kernel
from briskrl.fused.kernels import gemm as kernels
from briskrl.fused.kernels.gemm import dot_gemm, gemm, transpose_all
from briskrl.fused.kernels.gemm_tile import (
    LINEAR,
    RELU,
    TANH,
    ActivationGradEpilogue,
    AddEpilogue,
    Matrix,
    ReluEpilogue,
)
from briskrl.fused.kernels.structs import PADDING
from briskrl.fused.kernels.transpose import transpose

ROUNDING = {"float32": 3e-6, "float64": 1e-13}


@kernel
def multiply(c, rows, columns, a, b, start, depth, epilogue):
    gemm(c, rows, columns, a, b, start, depth, epilogue)


@kernel
def multiply_by_dots(c, rows, columns, a, b, start, depth):
    dot_gemm(c, rows, columns, a, b, start, depth)


@kernel
def transpose_eight(target, source):
    transpose(target, source, 8)


@kernel
def transpose_sixteen(target, source):
    transpose(target, source, 16)


@kernel
def transpose_any(target, source, rows, columns):
    transpose_all(target, source, rows, columns)


def padded(count: int) -> int:
    return -(-count // PADDING) * PADDING


def matrix_of(array, at: int, row: int, *, transposed: bool = False) -> Matrix:
    """A matrix somewhere in a flat array that is NaN everywhere else."""
    stored = array.T if transposed else array
    numbers = np.full(at + len(stored) * row + 3, np.nan, array.dtype)
    for r, values in enumerate(stored):
        numbers[at + r * row : at + r * row + len(values)] = values
    return Matrix(numbers, at, 1, row) if transposed else Matrix(numbers, at, row, 1)


@settings(max_examples=150)
@given(
    rows=st.integers(1, 70),
    columns=st.integers(1, 150),
    depth=st.integers(0, 80),
    at=st.tuples(*[st.integers(0, 5)] * 4),
    more=st.tuples(*[st.integers(0, 9)] * 4),
    transposed=st.booleans(),
    shared_start=st.booleans(),
    epilogue=st.sampled_from([-np.inf, 0.0, 0.5, "late"]),
    dtype=st.sampled_from(["float32", "float64"]),
)
def test_a_product_of_any_shape_equals_numpys(
    rows, columns, depth, at, more, transposed, shared_start, epilogue, dtype
):
    rng = np.random.default_rng(rows * columns + depth)
    wide = padded(columns)
    a = rng.standard_normal((rows, depth)).astype(dtype)
    b = rng.standard_normal((depth, wide)).astype(dtype)
    start = rng.standard_normal((1 if shared_start else rows, wide)).astype(dtype)
    row = (rows if transposed else depth) + more[0]
    left = matrix_of(a, at[0], row, transposed=transposed)
    right = matrix_of(b, at[1], wide + more[1])
    first = matrix_of(start, at[2], wide + more[2])
    if shared_start:
        first = first._replace(stride=0)
    out = matrix_of(np.zeros((rows, wide), dtype), at[3], wide + more[3])
    before = out.data.copy()
    floor = -np.inf if epilogue == "late" else epilogue
    how = AddEpilogue() if epilogue == "late" else ReluEpilogue(a.dtype.type(floor))
    multiply(out, rows, wide, left, right, first, depth, how)

    exact = start.astype(np.float64) + a.astype(np.float64) @ b.astype(np.float64)
    exact = np.maximum(floor, exact)
    size = 1 + np.abs(a).astype(np.float64) @ np.abs(b)
    inside = out.offset + np.arange(rows)[:, None] * out.stride + np.arange(wide)
    assert (np.abs(out.data[inside] - exact) <= ROUNDING[dtype] * size).all()
    # Elements around the block are unchanged.
    before[inside] = out.data[inside]
    assert np.array_equal(out.data, before, equal_nan=True)


@settings(max_examples=100)
@given(
    rows=st.integers(1, 70),
    columns=st.integers(1, 150),
    depth=st.integers(0, 80),
    activation=st.sampled_from([LINEAR, RELU, TANH]),
    dtype=st.sampled_from(["float32", "float64"]),
)
def test_the_epilogue_multiplies_with_the_gradient_of_an_activation(
    rows, columns, depth, activation, dtype
):
    rng = np.random.default_rng(rows * columns + depth)
    wide = padded(columns)
    a, b, before = (
        rng.standard_normal(shape).astype(dtype)
        for shape in ((rows, depth), (depth, wide), (rows, wide))
    )
    made = [before, np.maximum(0, before), np.tanh(before)][activation]
    grad = [np.ones_like(before), before > 0, 1 - np.tanh(before) ** 2][activation]
    out = matrix_of(np.zeros((rows, wide), dtype), 2, wide + 3)
    results = matrix_of(made, 2, wide + 3).data
    left, right = matrix_of(a, 0, depth), matrix_of(b, 0, wide)
    zeros = Matrix(np.zeros(wide, dtype), 0, 0, 1)
    multiply(
        out, rows, wide, left, right, zeros, depth, ActivationGradEpilogue(activation, results)
    )
    inside = out.offset + np.arange(rows)[:, None] * out.stride + np.arange(wide)
    size = 1 + np.abs(a).astype(np.float64) @ np.abs(b)
    assert (np.abs(out.data[inside] - (a @ b) * grad) <= ROUNDING[dtype] * size).all()


@settings(max_examples=100)
@given(
    rows=st.integers(1, 70),
    columns=st.integers(1, 5),
    vectors=st.integers(0, 9),
    more=st.tuples(*[st.integers(0, 9)] * 3),
    dtype=st.sampled_from(["float32", "float64"]),
)
def test_a_dot_product_matrix_equals_numpys_and_no_other_column_is_written(
    rows, columns, vectors, more, dtype
):
    depth = vectors * kernels.VECTOR_BYTES // np.dtype(dtype).itemsize
    rng = np.random.default_rng(rows * columns + depth)
    a, b = (rng.standard_normal((n, depth)).astype(dtype) for n in (rows, columns))
    start = rng.standard_normal(columns).astype(dtype)
    out = matrix_of(np.zeros((rows, columns), dtype), more[0], PADDING)
    before = out.data.copy()
    left, right = matrix_of(a, more[1], depth + more[1]), matrix_of(b, more[2], depth + more[2])
    multiply_by_dots(out, rows, columns, left, right, Matrix(start, 0, 0, 1), depth)
    exact = start + a.astype(np.float64) @ b.T.astype(np.float64)
    size = 1 + np.abs(a).astype(np.float64) @ np.abs(b.T)
    inside = out.offset + np.arange(rows)[:, None] * out.stride + np.arange(columns)
    assert (np.abs(out.data[inside] - exact) <= ROUNDING[dtype] * size).all()
    before[inside] = out.data[inside]
    assert np.array_equal(out.data, before, equal_nan=True)


def test_a_row_of_dot_products_does_not_depend_on_other_rows():
    rng = np.random.default_rng(0)
    a, b = (rng.standard_normal((n, 64)).astype(np.float32) for n in (7, 3))
    right, start = Matrix(b.reshape(-1), 0, 64, 1), Matrix(np.ones(3, np.float32), 0, 0, 1)
    together, alone = (np.zeros((7, 8), np.float32) for _ in range(2))
    multiply_by_dots(
        Matrix(together.reshape(-1), 0, 8, 1),
        7,
        3,
        Matrix(a.reshape(-1), 0, 64, 1),
        right,
        start,
        64,
    )
    for r in range(7):
        multiply_by_dots(Matrix(alone[r], 0, 8, 1), 1, 3, Matrix(a[r], 0, 64, 1), right, start, 64)
    assert np.array_equal(together, alone)


@pytest.mark.parametrize("late", [False, True])
@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_a_product_may_accumulate_in_place(dtype, late):
    rng = np.random.default_rng(0)
    a, b, c = (rng.standard_normal(shape).astype(dtype) for shape in ((9, 5), (5, 40), (9, 40)))
    out = Matrix(c.copy().reshape(-1), 0, 40, 1)
    left, right = Matrix(a.reshape(-1), 0, 5, 1), Matrix(b.reshape(-1), 0, 40, 1)
    multiply(
        out,
        9,
        40,
        left,
        right,
        out,
        5,
        AddEpilogue() if late else ReluEpilogue(a.dtype.type(-np.inf)),
    )
    assert out.data.reshape(9, 40) == pytest.approx(c + a @ b, abs=1e-5)


def test_the_add_epilogue_adds_to_the_finished_sum():
    """2^24 + 1 - 1 is 2^24 - 1 in float32 if that begins the sum, and 2^24 if it is added last."""
    one, big = np.ones(8, np.float32), np.full(8, 2.0**24, np.float32)
    left = Matrix(np.array([1, -1], np.float32), 0, 2, 1)
    right = Matrix(np.concatenate([one, one]), 0, 8, 1)
    found = {}
    for epilogue in (ReluEpilogue(np.float32(-np.inf)), AddEpilogue()):
        out = Matrix(np.zeros(8, np.float32), 0, 8, 1)
        multiply(out, 1, 8, left, right, Matrix(big, 0, 8, 1), 2, epilogue)
        found[type(epilogue)] = set(out.data.tolist())
    assert found == {ReluEpilogue: {2.0**24 - 1}, AddEpilogue: {2.0**24}}


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize(
    ("size", "transpose_block"), [(8, transpose_eight), (16, transpose_sixteen)]
)
def test_a_transposed_block_equals_numpys(dtype, size, transpose_block):
    block = np.arange(size * size, dtype=dtype).reshape(size, size)
    source = matrix_of(block, 3, size + 2)
    target = matrix_of(np.zeros_like(block), 5, size + 7)
    around = np.isnan(target.data)
    transpose_block(target, source)
    places = 5 + np.arange(size)[:, None] * (size + 7) + np.arange(size)
    assert np.array_equal(target.data[places], block.T)
    assert np.isnan(target.data[around]).all()


@settings(max_examples=60)
@given(
    rows=st.integers(1, 40),
    columns=st.integers(1, 40),
    more=st.tuples(*[st.integers(0, 3)] * 4),
    dtype=st.sampled_from(["float32", "float64"]),
)
def test_a_transposed_matrix_of_any_shape_equals_numpys_and_nothing_else_is_written(
    rows, columns, more, dtype
):
    matrix = np.arange(rows * columns, dtype=dtype).reshape(rows, columns)
    source = matrix_of(matrix, more[0], columns + more[1])
    # It ends where the matrix ends: reading past it would be out of bounds.
    source = source._replace(data=source.data[:-3].copy())
    target = matrix_of(np.zeros((columns, rows), dtype), more[2], rows + more[3])
    around = np.isnan(target.data)
    transpose_any(target, source, rows, columns)
    places = more[2] + np.arange(columns)[:, None] * (rows + more[3]) + np.arange(rows)
    assert np.array_equal(target.data[places], matrix.T)
    assert np.isnan(target.data[around]).all()


def test_compiled_strips_have_different_names():
    """Kernels cached by different processes are linked by name: equal names would be confused."""
    strips = (
        kernels._wide_strip,
        kernels._strip_of_one,
        kernels._strip_of_half,
        kernels._strip_of_one_dot,
        kernels._strip_of_two_dots,
    )
    assert len({strip.py_func.__qualname__ for strip in strips}) == len(strips)
