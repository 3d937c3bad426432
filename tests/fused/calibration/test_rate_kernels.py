"""Timed kernels compute what their rates are named after."""

from __future__ import annotations

import numpy as np
import pytest

from briskrl.core.types import aligned_zeros
from briskrl.fused.calibration.gemm_rates import SHAPES, name_of
from briskrl.fused.kernels.calibration import multiply, nothing, triad


def flat(rng: np.random.Generator, size: int) -> np.ndarray:
    numbers = aligned_zeros((size,), np.float32)
    numbers[:] = rng.standard_normal(size)
    return numbers


@pytest.mark.parametrize("repeats", [1, 3])
@pytest.mark.parametrize(
    ("rows", "depth", "columns"), [*SHAPES[:-1], (1, 1, 8), (65, 3, 72), (130, 7, 16)]
)
def test_the_timed_product_is_the_product(rows: int, depth: int, columns: int, repeats: int):
    rng = np.random.default_rng(rows)
    a, b, bias = flat(rng, rows * depth), flat(rng, depth * columns), flat(rng, columns)
    c = aligned_zeros((rows * columns,), np.float32)
    multiply(a, b, c, bias, rows, depth, columns, repeats)
    expected = a.reshape(rows, depth).astype(float) @ b.reshape(depth, columns) + bias
    np.testing.assert_allclose(c.reshape(rows, columns), expected, rtol=1e-4, atol=1e-4)


def test_the_triad_reads_two_arrays_and_writes_one():
    rng = np.random.default_rng(0)
    left, right, out = flat(rng, 1001), flat(rng, 1001), np.zeros(1001, np.float32)
    triad(out, left, right, np.float32(3))
    np.testing.assert_allclose(out, left + 3 * right, rtol=1e-5, atol=1e-6)


def test_nothing_is_done_to_an_array():
    numbers = np.arange(8, dtype=np.float32)
    nothing(numbers)
    np.testing.assert_array_equal(numbers, np.arange(8))


def test_shapes_have_readable_names():
    assert name_of((64, 128, 3)) == "64x128x3"
