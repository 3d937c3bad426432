from __future__ import annotations

import math

import numpy as np
import pytest

from briskrl.nets.kernels import tanh_in_place


def test_tanh_is_exact_to_float32_over_its_whole_range():
    points = np.concatenate([np.linspace(-12, 12, 200_001), np.logspace(-30, 1, 10_000)])
    values = points.astype(np.float32)
    expected = np.tanh(values.astype(np.float64))
    tanh_in_place(values)
    assert values == pytest.approx(expected, rel=4e-7, abs=0)
    assert np.abs(values).max() <= 1


def test_tanh_equals_its_plain_twin_at_the_edges():
    edges = [0.0, math.inf, -math.inf, 1e-38, 88.0, -3e38, 7.9053, 7.9054]
    values = np.array(edges, np.float32)
    tanh_in_place(values)
    assert values.tolist() == pytest.approx([math.tanh(edge) for edge in edges], rel=4e-7)
    missing = np.array([math.nan], np.float32)
    tanh_in_place(missing)
    assert np.isnan(missing[0])
