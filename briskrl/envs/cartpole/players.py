"""A CartPole player that learns nothing: it pushes the way that a linear rule says."""

from __future__ import annotations

import numpy as np

from briskrl.core.types import Floats, Ints

_WEIGHTS = np.array((0.1, 0.3, 2.0, 1.0), np.float32)
"""Of place, speed, angle and spin: the pole first, and then back to the middle."""


def heuristic_actions(obs: Floats) -> Ints:
    """Actions (N,) for observations (N, 4)."""
    actions: Ints = (obs @ _WEIGHTS > 0).astype(np.int64)
    return actions
