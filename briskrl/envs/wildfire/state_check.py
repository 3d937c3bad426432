"""Checks loaded states and codes of wildfire episodes, whose numbers kernels use as indices."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from briskrl.core.state_checks import check_finite, check_range
from briskrl.core.types import Array
from briskrl.envs.wildfire.kernels import layout as k
from briskrl.envs.wildfire.landscape_pool import Pool
from briskrl.envs.wildfire.layout import Layout

_INT32 = np.iinfo(np.int32).max


def check_episodes(rows: NDArray[np.uint64], layout: Layout, pool: Pool) -> None:
    """Check the memory of episodes (N, row_words).

    Raises:
        InvalidStateError: No episode with these landscapes can have written it.
    """
    ints, reals, landscapes = rows.view(np.int32), rows.view(np.float64), len(pool.members)
    for name, at, high in (
        ("landscape", k.LAND, landscapes - 1),
        ("pinned landscape", k.PINNED, landscapes),
        ("steps", k.STEPS, _INT32 - 1),
        ("budget", k.BUDGET, min(pool.budget, layout.cells)),
        ("spent budget", k.SPENT, min(pool.budget, layout.cells)),
        ("treated cells", k.TREATED, layout.cells),
        ("dropped cells", k.DROPPED, _INT32 // 2),
        ("episode", k.EPISODE, _INT32 - 1),
    ):
        check_range(f"wildfire: {name}", ints[:, at], 0, high)
    left = ints[:, k.BUDGET].astype(np.int64) - ints[:, k.SPENT]
    check_range("wildfire: remaining budget", left, 0, layout.cells)
    fires = ints[:, 2 * layout.fires : 2 * (layout.fires + layout.n_fires)]
    fires = fires.reshape(len(rows), layout.n_fires, 2)
    check_range("wildfire: ignition", fires[:, :, 0], 0, layout.cells - 1)
    weather = len(pool.members[0].scene.weather)
    check_range("wildfire: weather", fires[:, :, 1], 0, weather - 1)
    check_finite("wildfire: loss", reals[:, layout.losses : layout.losses + layout.n_fires])
    check_finite("wildfire: mean loss", reals[:, [k.RETURN, k.LOSS_FIRST, k.LOSS]])
    for name, first in (
        ("legal cells", layout.legal),
        ("final legal cells", layout.final),
        ("closed cells", layout.closed),
    ):
        _check_bitmap(f"wildfire: {name}", rows[:, first : first + layout.bits], layout.cells)


def check_codes(name: str, codes: Array, pool: Pool) -> None:
    """Check codes (B, W) of observations; see `write_codes`.

    Raises:
        InvalidStateError: They are not codes of these landscapes.
    """
    height, width = pool.shape
    check_range(f"{name}: landscape", codes.view(np.int32)[:, 0], 0, len(pool.members) - 1)
    check_range(f"{name}: remaining budget", codes.view(np.float32)[:, 1], 0.0, 1.0)
    _check_bitmap(f"{name}: closed cells", codes[:, 1:], height * width)


def _check_bitmap(name: str, words: Array, cells: int) -> None:
    """Check that the bits behind the last cell are not set."""
    if cells % 64:
        check_range(name, words[:, -1], 0, (1 << cells % 64) - 1)
