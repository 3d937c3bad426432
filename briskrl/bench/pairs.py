"""Two sides measured in alternating turns: what each turn cost, and their ratio."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import sqrt


@dataclass(frozen=True, slots=True)
class Pair:
    """Neighbouring turns of as many iterations on both sides, in CPU seconds."""

    old_s: float
    """Cost in the process that has trained for long."""
    fresh_s: float
    """Cost in the process that has begun anew."""


def cost_ratio(pairs: Sequence[Pair]) -> float | None:
    """All CPU of the old side over all CPU of the fresh side; None without pairs."""
    fresh_s = sum(pair.fresh_s for pair in pairs)
    return sum(pair.old_s for pair in pairs) / fresh_s if fresh_s > 0 else None


def standard_error(pairs: Sequence[Pair]) -> float | None:
    """How far `cost_ratio` moves by chance, judged by the unrest between pairs; None below two."""
    ratio, count = cost_ratio(pairs), len(pairs)
    if ratio is None or count < 2:
        return None
    squares = sum((pair.old_s - ratio * pair.fresh_s) ** 2 for pair in pairs)
    return sqrt(squares * count / (count - 1)) / sum(pair.fresh_s for pair in pairs)
