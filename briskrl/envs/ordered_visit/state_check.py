"""Checks a loaded state of grids, whose numbers kernels use as indices."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from briskrl.core.errors import InvalidStateError
from briskrl.core.state_checks import check_finite, check_range
from briskrl.envs.ordered_visit.config import OrderedVisitConfig
from briskrl.envs.ordered_visit.kernels import step as k


def check_grids(rows: NDArray[np.uint64], config: OrderedVisitConfig) -> None:
    """Check the memory of grids (N, row_words).

    Raises:
        InvalidStateError: No episode can have written it.
    """
    shorts, ints = rows.view(np.int16), rows.view(np.int32)
    last = config.side - 1
    check_range("ordered-visit: position", shorts[:, [k.X, k.Y]], 0, last)
    check_range("ordered-visit: visited", shorts[:, k.VISITED], 0, (1 << config.regions) - 1)
    check_range("ordered-visit: steps", ints[:, k.STEPS], 0, config.max_steps)
    check_range("ordered-visit: visits in order", ints[:, k.RIGHT], 0, config.regions)
    check_finite("ordered-visit: return", rows.view(np.float64)[:, k.TOTAL])
    walls = rows[:, k.WALLS : k.WALLS + config.side]
    check_range("ordered-visit: walls", walls, 0, (1 << config.side) - 1)
    here = walls[np.arange(len(rows)), shorts[:, k.Y]] >> shorts[:, k.X].astype(np.uint64)
    if (here & np.uint64(1)).any():
        raise InvalidStateError("ordered-visit: position inside a wall")
