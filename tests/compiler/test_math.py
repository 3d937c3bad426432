from __future__ import annotations

import math

import numpy as np
import pytest

from briskrl.compiler.jit import kernel
from briskrl.compiler.math import exp_all, log_all, tanh_all


@kernel
def raise_e(powers, out):
    exp_all(powers, out)


@kernel
def take_logarithms(values, out):
    log_all(values, out)


def test_tanh_is_exact_to_float32_over_its_whole_range():
    points = np.concatenate([np.linspace(-12, 12, 200_001), np.logspace(-30, 1, 10_000)])
    values = points.astype(np.float32)
    expected = np.tanh(values.astype(np.float64))
    tanh_all(values)
    assert values == pytest.approx(expected, rel=4e-7, abs=0)
    assert np.abs(values).max() <= 1


def test_tanh_equals_its_python_reference_at_the_edges():
    edges = [0.0, math.inf, -math.inf, 1e-38, 88.0, -3e38, 7.7999, 7.8001]
    values = np.array(edges, np.float32)
    tanh_all(values)
    assert values.tolist() == pytest.approx([math.tanh(edge) for edge in edges], rel=4e-7)
    missing = np.array([math.nan], np.float32)
    tanh_all(missing)
    assert np.isnan(missing[0])


def test_exponentials_are_exact_to_float64_and_end_in_zero_and_infinity():
    points = np.concatenate([np.linspace(-708, 709, 100_001), np.linspace(-3, 3, 100_001)])
    found = np.zeros_like(points)
    raise_e(points, found)
    assert np.abs(found / np.exp(points) - 1).max() < 3e-16
    edges = np.array([-math.inf, -1e9, -709.0, 0.0, 710.0, math.inf, math.nan])
    found = np.zeros_like(edges)
    raise_e(edges, found)
    assert found[:-1].tolist() == [0, 0, 0, 1, math.inf, math.inf]
    assert np.isnan(found[-1])


def test_logarithms_are_exact_to_float64_and_keep_nan():
    points = np.concatenate(
        [np.exp(np.linspace(-708, 709, 100_001)), np.linspace(0.5, 30, 100_001)]
    )
    found, expected = np.zeros_like(points), np.log(points)
    take_logarithms(points, found)
    assert (np.abs(found - expected) / np.maximum(1, np.abs(expected))).max() < 5e-16
    missing = np.array([math.nan])
    take_logarithms(missing, missing)
    assert np.isnan(missing[0])
