"""The planning baselines as players: they treat the best legal cell of the plane `plan`."""

from __future__ import annotations

import numpy as np

from briskrl.core.types import Array


def planned_actions(obs: Array) -> Array:
    """Cells (N,) for observations (N, 2, H, W) of the planes `plan` and `legal`."""
    plan, legal = obs.reshape(len(obs), 2, -1).swapaxes(0, 1)
    cells: Array = np.where(legal > 0, plan, -1.0).argmax(axis=1)
    return cells
