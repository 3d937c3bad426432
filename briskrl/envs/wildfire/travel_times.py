"""Edge times: travel time of fire from each cell in each direction, per weather scenario."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from briskrl.core.types import Floats
from briskrl.envs.wildfire.behavior import (
    KMH,
    WIND_20FT,
    FuelBed,
    HeadFire,
    azimuth,
    fuel_beds,
    head_fire,
    wind_factor,
)
from briskrl.envs.wildfire.directions import Compass
from briskrl.envs.wildfire.fuels import Reals
from briskrl.envs.wildfire.landscape import Landscape
from briskrl.envs.wildfire.weather import Weather


@dataclass(frozen=True, slots=True, eq=False)
class EdgeTables:
    """Travel times and head fires of a landscape in B scenarios."""

    minutes: Floats
    """(B, cells, K): from a cell in a direction, infinite where fire cannot go."""
    head: HeadFire
    """Arrays (B, cells)."""


def build_tables(
    landscape: Landscape, weather: Weather, points: Compass, *, wind_limit: bool = False
) -> EdgeTables:
    """The edge times of a landscape under all scenarios at once."""
    head = cell_fires(landscape, weather, wind_limit=wind_limit)
    return EdgeTables(
        _edge_minutes(landscape, inverse_rates(landscape, head, points), points), head
    )


def cell_fires(landscape: Landscape, weather: Weather, *, wind_limit: bool = False) -> HeadFire:
    """Head fires of every cell, (B, cells)."""
    bed = _cell_beds(landscape, weather)
    cover, height = landscape.canopy_cover.ravel(), landscape.canopy_height.ravel()
    factor = wind_factor(bed.depth_ft, cover, height)
    return head_fire(
        bed,
        midflame=weather.wind_kmh[:, None] * KMH * WIND_20FT * factor,
        wind_from_deg=weather.wind_from_deg[:, None],
        slope=landscape.slope.ravel(),
        aspect_deg=landscape.aspect.ravel(),
        wind_limit=wind_limit,
    )


def _cell_beds(landscape: Landscape, weather: Weather) -> FuelBed:
    """Fuel beds (B, cells); each fuel is computed once per moisture."""
    codes, of_cell = np.unique(landscape.fuel.ravel(), return_inverse=True)
    wet, of_scenario = np.unique(weather.moisture, axis=0, return_inverse=True)
    beds = fuel_beds(np.tile(codes, len(wet)), np.repeat(wet, len(codes), axis=0))
    return beds.take(of_scenario.reshape(-1, 1) * len(codes) + of_cell)


def inverse_rates(landscape: Landscape, head: HeadFire, points: Compass) -> Reals:
    """Minutes per meter of horizontal distance in each direction, (B, K, cells).

    The rate at an angle t from the head is R (1 - e) / (1 - e cos t), in the slope plane; there a
    horizontal meter is sqrt(1 + s^2) long, where s is the slope along it.
    """
    east, north = points.cols / points.length, -points.rows / points.length
    up_e, up_n = azimuth(landscape.aspect.ravel(), turned=2)
    rise = landscape.slope.ravel() * (east[:, None] * up_e + north[:, None] * up_n)
    with np.errstate(divide="ignore"):
        slowest = 1 / (head.rate * (1 - head.eccentricity))
    e = head.eccentricity
    ahead = (e * head.east)[:, None] * east[:, None] + (e * head.north)[:, None] * north[:, None]
    ahead += (e * head.up)[:, None] * rise
    inverse = np.subtract(np.sqrt(1 + rise**2), ahead, out=ahead)
    # Positive at all angles, because e is below 1; infinite where nothing burns.
    inverse *= slowest[:, None]
    return inverse


def _edge_minutes(landscape: Landscape, inverse: Reals, points: Compass) -> Floats:
    scenarios, count, _ = inverse.shape
    height, width = landscape.shape
    pad = points.reach
    blocked = np.pad(~landscape.burnable, pad, constant_values=True)
    wide = np.full((scenarios, count, height + 2 * pad, width + 2 * pad), np.inf)
    wide[:, :, pad:-pad, pad:-pad] = inverse.reshape(scenarios, count, height, width)
    minutes = np.empty((scenarios, height, width, count), np.float32)

    def shifted(array: NDArray[Any], row: int, col: int) -> NDArray[Any]:
        return array[..., pad + row : pad + row + height, pad + col : pad + col + width]

    for k, crossing in enumerate(points.crossings):
        layer = wide[:, k]
        total = np.zeros((scenarios, height, width))
        for (row, col), weight in zip(crossing.cells, crossing.weights, strict=True):
            total += weight * shifted(layer, row, col)
        total *= points.length[k] * landscape.cell_m
        if crossing.corner is not None and _holds(points, k):
            one, other = (shifted(blocked, *cell) for cell in crossing.corner)
            total[:, one & other] = np.inf
        minutes[..., k] = total
    return minutes.reshape(scenarios, height * width, count)


def _holds(points: Compass, k: int) -> bool:
    """Whether two blocked cells beside a corner stop direction k."""
    return bool((points.pinches[:, 4] == k).any())
