"""Distances between orders and the kernels made of them."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

from briskrl.core.errors import ConfigError
from briskrl.orders.space import WorkflowSpace
from briskrl.workflows.distances import DISTANCES, Distance, checked_pair_counts, distances
from briskrl.workflows.evidence import LENGTHS
from tests.workflows import reference

SPACE = WorkflowSpace("abcde")
COUNTS = np.triu(np.random.default_rng(3).integers(0, 500, (5, 5)).astype(np.float64), 1)


def matrix(kind: Distance) -> np.ndarray:
    return distances(SPACE.orders, SPACE.orders, kind, COUNTS)


REFERENCES: dict[Distance, Callable[..., float]] = {
    "kendall": reference.kendall,
    "footrule": reference.footrule,
    "hamming": reference.hamming,
    "mix": reference.mix,
    "weighted": lambda a, b: reference.weighted(a, b, COUNTS.tolist()),
}


@pytest.mark.parametrize("kind", DISTANCES)
def test_distances_equal_plain_python(kind: Distance) -> None:
    rng = np.random.default_rng(0)
    a, b = rng.integers(120, size=(2, 200))
    orders = [tuple(order) for order in SPACE.orders.tolist()]
    expected = [REFERENCES[kind](orders[i], orders[j]) for i, j in zip(a, b, strict=True)]
    np.testing.assert_allclose(matrix(kind)[a, b], expected, atol=1e-12)


@pytest.mark.parametrize("kind", DISTANCES)
def test_distances_are_metrics_from_0_to_1(kind: Distance) -> None:
    d = matrix(kind)
    assert (np.diag(d) == 0).all()
    assert (d == d.T).all()
    assert d[~np.eye(120, dtype=bool)].min() > 0
    assert d.max() <= 1
    for middle in range(120):
        assert (d <= d[:, middle, None] + d[middle] + 1e-12).all()


@pytest.mark.parametrize("kind", [kind for kind in DISTANCES if kind != "weighted"])
def test_distances_do_not_depend_on_the_names_of_categories(kind: Distance) -> None:
    for renamed in np.random.default_rng(1).permuted(np.tile(np.arange(5), (10, 1)), axis=1):
        other = distances(renamed[SPACE.orders], renamed[SPACE.orders], kind)
        np.testing.assert_allclose(other, matrix(kind), atol=1e-12)


def test_the_weighted_distance_follows_renamed_categories() -> None:
    renamed = np.array([3, 0, 4, 1, 2])
    both = COUNTS + COUNTS.T
    counts = np.zeros((5, 5))
    counts[np.ix_(renamed, renamed)] = both
    other = distances(renamed[SPACE.orders], renamed[SPACE.orders], "weighted", np.triu(counts, 1))
    np.testing.assert_allclose(other, matrix("weighted"), atol=1e-12)


@pytest.mark.parametrize("kind", DISTANCES)
def test_kernels_are_positive_definite_over_all_orders(kind: Distance) -> None:
    for length in LENGTHS:
        assert np.linalg.eigvalsh(np.exp(-matrix(kind) / length))[0] > 1e-8


def test_the_squared_exponential_of_kendall_is_not_positive_definite() -> None:
    d = matrix("kendall")
    smallest = np.linalg.eigvalsh(np.exp(-(d**2) / (2 * 0.35**2)))[0]
    assert smallest == pytest.approx(-0.957, abs=1e-3)


def test_distances_of_the_canonical_order_of_three() -> None:
    orders = WorkflowSpace("abc").orders
    expected = [0, 1 / 3, 1 / 3, 2 / 3, 2 / 3, 1]
    np.testing.assert_allclose(distances(orders[:1], orders, "kendall")[0], expected, atol=1e-12)


def test_opposite_orders_are_the_farthest() -> None:
    first, last = SPACE.orders[:1], SPACE.orders[-1:]
    for kind in ("kendall", "footrule", "weighted"):
        assert distances(first, last, kind, COUNTS)[0, 0] == pytest.approx(1)


@pytest.mark.parametrize(
    "counts",
    [np.zeros((4, 4)), -np.ones((5, 5)), np.full((5, 5), np.nan), [[1, 2], [3]], "many", 3],
)
def test_impossible_pair_counts_are_rejected(counts: object) -> None:
    with pytest.raises(ConfigError, match="pair counts"):
        checked_pair_counts(counts, 5)
