"""Evaluate breaks, and changes of them, on a sample of fires."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from briskrl.core.types import Ints
from briskrl.envs.wildfire.directions import Compass
from briskrl.envs.wildfire.fuels import Reals
from briskrl.envs.wildfire.kernels import break_search as k
from briskrl.envs.wildfire.simulate import Fires, Scene, new_grid


class Trials:
    """Evaluates breaks on one sample of fires."""

    def __init__(self, scene: Scene, fires: Fires) -> None:
        burned = np.zeros(len(fires) * -(-scene.landscape.cells // 64), np.uint64)
        self.scene = scene
        self._fires = fires
        self._grid = new_grid(scene)
        self._sample = k.Sample(
            starts=fires.cell,
            weathers=fires.weather,
            burned=burned,
            losses=np.zeros(len(fires)),
            work=np.zeros_like(burned),
            unburnable=bits_of(~scene.burnable),
            pairs=stopped_pairs(scene.compass).ravel(),
        )

    def loss(self, breaks: Ints) -> float:
        """Mean lost value of the sample with these breaks; `with_each` and `swap` start there."""
        total = k.burn_sample(self._grid, self._sample, breaks)
        return float(total) / len(self._fires)

    def with_each(self, breaks: Ints, candidates: Ints) -> Reals:
        """Mean lost value with each candidate (M,) added to the breaks last given to `loss`."""
        totals = np.zeros(len(candidates))
        k.try_cells(self._grid, self._sample, np.append(breaks, 0), candidates, totals)
        return totals / len(self._fires)

    def swap(self, breaks: Ints, weights: Reals, random: NDArray[np.uint64], budget: int) -> int:
        """Improve breaks in place by moving one at a time; returns how many fires were burned.

        Args:
            breaks: Those last given to `loss`.
            weights: How likely each cell is to be proposed, (cells,).
            random: One word of random state, which advances.
            budget: Fires to burn.
        """
        proposals = k.Proposals(self.scene.legal, np.cumsum(weights), random)
        changed = np.zeros(len(self._fires))
        done: int = k.search_swaps(self._grid, self._sample, breaks, proposals, changed, budget)
        return done


def stopped_pairs(points: Compass) -> Ints:
    """Ends (Q, 4) of the moves that a break can stop without being either end, relative to it."""
    found = set()
    stops = [(row, col, way) for row, col, way in points.cuts.tolist()]
    stops += [(row, col, way) for row, col, _, _, way in points.pinches.tolist()]
    for row, col, way in stops:
        end = (row + int(points.rows[way]), col + int(points.cols[way]))
        if (row, col) != (0, 0) and end != (0, 0):
            found.add(tuple(sorted([(row, col), end])))
    return np.array([[*one, *other] for one, other in sorted(found)], np.int64).reshape(-1, 4)


def bits_of(cells: NDArray[np.bool_]) -> NDArray[np.uint64]:
    """A mask (cells,) as a bitmap of 64-bit words."""
    padded = np.zeros(-(-len(cells) // 64) * 64, np.bool_)
    padded[: len(cells)] = cells
    return np.packbits(padded, bitorder="little").view(np.uint64)
