"""A hand-written CartPole player: a linear rule."""

from __future__ import annotations

import numpy as np

from briskrl.core.types import Floats, Ints

_WEIGHTS = np.array((0.1, 0.3, 2.0, 1.0), np.float32)
"""Of position, velocity, angle and angular velocity: balance first, then back to the center."""


def heuristic_actions(obs: Floats) -> Ints:
    """Actions (N,) for observations (N, 4)."""
    actions: Ints = (obs @ _WEIGHTS > 0).astype(np.int64)
    return actions
