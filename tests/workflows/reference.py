"""Slow plain-Python versions of distances and kernels."""

from __future__ import annotations

import math
from itertools import combinations

Order = tuple[int, ...]


def kendall(a: Order, b: Order) -> float:
    pairs = list(combinations(range(len(a)), 2))
    return sum(_differ(a, b, i, j) for i, j in pairs) / len(pairs)


def weighted(a: Order, b: Order, counts: list[list[float]]) -> float:
    pairs = list(combinations(range(len(a)), 2))
    total = sum(counts[i][j] + 1 for i, j in pairs)
    return sum((counts[i][j] + 1) / total for i, j in pairs if _differ(a, b, i, j))


def footrule(a: Order, b: Order) -> float:
    m = len(a)
    return sum(abs(a.index(c) - b.index(c)) for c in range(m)) / math.floor(m * m / 2)


def hamming(a: Order, b: Order) -> float:
    return sum(x != y for x, y in zip(a, b, strict=True)) / len(a)


def mix(a: Order, b: Order) -> float:
    return (kendall(a, b) + hamming(a, b)) / 2


def _differ(a: Order, b: Order, i: int, j: int) -> bool:
    return (a.index(i) < a.index(j)) != (b.index(i) < b.index(j))
