"""Fires on one landscape, for planning and evaluation."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from briskrl.core.types import Bools, Floats, Ints
from briskrl.envs.wildfire.directions import Compass, compass
from briskrl.envs.wildfire.fuels import Reals
from briskrl.envs.wildfire.kernels import fire_paths as k
from briskrl.envs.wildfire.kernels.spread import FireGrid, scratch_words
from briskrl.envs.wildfire.landscape import Landscape
from briskrl.envs.wildfire.travel_times import EdgeTables, build_tables
from briskrl.envs.wildfire.weather import Weather


@dataclass(frozen=True, slots=True, eq=False)
class Fires:
    """F fires: ignition cells and weather scenarios."""

    cell: Ints
    """(F,)"""
    weather: Ints
    """(F,)"""

    def __len__(self) -> int:
        return len(self.cell)


@dataclass(frozen=True, slots=True, eq=False)
class Arrival:
    """Arrival times of one fire, (H, W) each."""

    minutes: Floats
    """NaN where the fire does not come."""
    parent: Ints
    """The cell that the fire came from; -1 at the ignition and where it does not come."""
    intensity: Reals
    """Fireline intensity of a head fire there, kW/m; NaN where the fire does not come."""


class Scene:
    """A landscape with its weather, ready to burn; immutable.

    Args:
        landscape: The landscape.
        weather: B scenarios.
        points: Directions of spread.
        wind_limit: Cap the effective wind by the reaction intensity.
    """

    def __init__(
        self,
        landscape: Landscape,
        weather: Weather,
        points: Compass | None = None,
        *,
        wind_limit: bool = False,
    ) -> None:
        self.landscape = landscape
        self.weather = weather
        self.compass = points or compass(16)
        self.tables: EdgeTables = build_tables(
            landscape, weather, self.compass, wind_limit=wind_limit
        )
        self.tables.minutes.flags.writeable = False
        self.burnable = landscape.burnable.ravel()
        self.value = landscape.value.ravel()
        self.total_value = float(self.value.sum())
        self.limits = weather.duration_min.astype(np.float32)

    def adopt(self, minutes: Floats) -> None:
        """Replace the edge times by equal ones in shared memory, so that there is one copy."""
        self.tables = replace(self.tables, minutes=minutes)

    @property
    def legal(self) -> Bools:
        """Cells that may be treated, (cells,)."""
        return self.burnable & ~self.landscape.protected.ravel()

    def draw_fires(self, rng: np.random.Generator, count: int) -> Fires:
        """Draw fires by ignition weight, with random scenarios."""
        weight = self.landscape.ignition_weight.ravel()
        cells = rng.choice(len(weight), size=count, p=weight / weight.sum())
        return Fires(cells, rng.integers(len(self.weather), size=count))


class Simulator:
    """Burns the fires of one scene; has scratch space, so use it from one thread at a time."""

    def __init__(self, scene: Scene) -> None:
        self.scene = scene
        cells = scene.landscape.cells
        self._cells = cells
        self._grid = new_grid(scene)
        self._work = np.zeros((2, cells))

    def losses(self, fires: Fires, treated: Bools | None = None) -> Reals:
        """Burned value of each fire, (F,)."""
        return self._burn(fires, treated)[1]

    def burned_cells(self, fires: Fires, treated: Bools | None = None) -> Ints:
        """Number of burned cells of each fire, (F,)."""
        return self._burn(fires, treated)[0]

    def burned_frac(self, fires: Fires, treated: Bools | None = None) -> float:
        """Mean burned value as a fraction of all burnable value."""
        return float(self.losses(fires, treated).mean()) / self.scene.total_value

    def burn_probability(self, fires: Fires, treated: Bools | None = None) -> Reals:
        """Fraction of the fires that burn each cell, (cells,)."""
        return self._burn(fires, treated)[2] / len(fires)

    def downstream(self, fires: Fires, treated: Bools | None = None) -> tuple[Reals, Reals]:
        """Means per cell (cells,): burned value downstream, itself included, and paths through it.

        Paths lead from the ignition to the ends of the shortest-path tree.
        """
        self._open(treated)
        sums = np.zeros((2, self._cells))
        k.trace_fires(self._grid, fires.cell, fires.weather, sums, self._work)
        sums /= len(fires)
        return sums[0], sums[1]

    def arrival(self, cell: int, weather: int, treated: Bools | None = None) -> Arrival:
        """Arrival times of one fire."""
        self._open(treated)
        shape = self.scene.landscape.shape
        minutes, parent = np.empty(self._cells, np.float32), np.empty(self._cells, np.int64)
        k.burn_one(self._grid, cell, weather, minutes, parent)
        head = self.scene.tables.head.intensity[weather]
        intensity = np.where(np.isnan(minutes), np.nan, head)
        return Arrival(minutes.reshape(shape), parent.reshape(shape), intensity.reshape(shape))

    def _open(self, treated: Bools | None) -> None:
        mask = np.zeros(self._cells, np.bool_) if treated is None else treated
        k.open_gates(self._grid, mask, self.scene.burnable)

    def _burn(self, fires: Fires, treated: Bools | None) -> tuple[Ints, Reals, NDArray[np.int64]]:
        self._open(treated)
        counts, losses = np.zeros(len(fires), np.int64), np.zeros(len(fires))
        hits = np.zeros(self._cells, np.int64)
        k.burn_fires(self._grid, fires.cell, fires.weather, hits, counts, losses)
        return counts, losses, hits


def new_grid(scene: Scene) -> FireGrid:
    """A scene as kernels read it, with scratch space of its own and without breaks."""
    points, (height, width) = scene.compass, scene.landscape.shape
    cells = scene.landscape.cells
    shape = [height, width, len(points.cuts), len(points.pinches), points.reach]
    return FireGrid(
        scratch=new_scratch(cells, width, points.reach),
        minutes=scene.tables.minutes.ravel(),
        limits=scene.limits,
        offsets=points.rows * width + points.cols,
        allowed=np.zeros(cells, np.uint32),
        closed=np.zeros(-(-cells // 64), np.uint64),
        shape=np.array(shape, np.int64),
        stencil=np.concatenate([points.cuts.ravel(), points.pinches.ravel()]),
        value=scene.value,
    )


def new_scratch(cells: int, width: int, reach: int) -> NDArray[np.int32]:
    """Scratch space of one lane."""
    return np.zeros(int(scratch_words(cells, width, reach)), np.int32)  # type: ignore[no-untyped-call]
