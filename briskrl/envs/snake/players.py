"""A hand-written Snake player: it avoids death, keeps reachable space, and then seeks food."""

from __future__ import annotations

import numpy as np

from briskrl.core.types import Floats, Ints

_TURNS = np.array((0, 1, 3))
# Below the smallest difference between two fractions of the largest board, 1/4095.
_FOOD_WEIGHT = np.float32(1e-4)


def heuristic_actions(obs: Floats) -> Ints:
    """Relative actions (N,) for flood observations (N, 14), or longer ones that begin like them.

    Among the moves that are not fatal it takes the one with the most reachable space. Ties go to a
    move toward the food, then to left before right before straight: turns keep the snake compact
    and break the loops in which it would starve.
    """
    heading = obs[:, 3:7].argmax(axis=1)
    ways = (heading[:, None] + _TURNS) % 4
    closer = np.take_along_axis(obs[:, 7:11], ways, axis=1)
    value = obs[:, 11:14] + _FOOD_WEIGHT * closer - obs[:, :3]
    actions: Ints = 2 - value[:, ::-1].argmax(axis=1)
    return actions
