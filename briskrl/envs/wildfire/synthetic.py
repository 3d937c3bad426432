"""Synthetic landscapes from a seed: hills, patches of fuel, lakes, roads and villages."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from briskrl.core.rng import Streams
from briskrl.core.types import Bools
from briskrl.envs.wildfire.fuels import Reals
from briskrl.envs.wildfire.landscape import Landscape, landscape_of

LAKE, ROAD = 98, 91
_BLURS = 3


@dataclass(frozen=True, slots=True)
class Terrain:
    """Settings of synthetic landscapes."""

    relief_m: float = 200.0
    """Height difference between the highest and the lowest cell."""
    relief_scale: int = 0
    """Half-width of the blur that makes hills; 0 means 3 cells, or 4 from 80 cells per side on."""
    fuels: tuple[int, ...] = (102, 122, 145, 165, 183)
    """Codes of the fuel models."""
    fuel_weights: tuple[float, ...] = ()
    """Relative frequency of each; empty if equal."""
    patch_scale: int = 2
    """Half-width of the blur that makes patches of fuel."""
    nb_frac: float = 0.03
    """Fraction of cells in lakes."""
    n_lines: int = 0
    """Straight roads, one cell wide."""
    n_settlements: int = 0
    """Villages, worth more than the land around them."""
    road_ignitions: float = 1.0
    """How much more likely fires start beside a road than elsewhere."""


def synthetic(
    seed: int, height: int, width: int, *, cell_m: float = 100.0, terrain: Terrain | None = None
) -> Landscape:
    """The landscape of a seed; each layer has its own random stream."""
    terrain = terrain or Terrain()
    streams, shape = Streams(seed), (height, width)
    hills = terrain.relief_scale or (4 if max(shape) >= 80 else 3)
    raw = smooth(streams["elevation"].standard_normal(shape), hills)
    elevation = 500 + terrain.relief_m * (raw - raw.min()) / max(float(np.ptp(raw)), 1e-12)
    weights = np.log(np.array(terrain.fuel_weights or (1.0,) * len(terrain.fuels)))
    fields = [
        _standard(smooth(streams[f"fuel {i}"].standard_normal(shape), terrain.patch_scale)) + weight
        for i, weight in enumerate(weights)
    ]
    fuel = np.array(terrain.fuels)[np.argmax(fields, axis=0)]
    lakes = smooth(streams["lakes"].standard_normal(shape), terrain.patch_scale)
    wet = round(terrain.nb_frac * lakes.size)
    fuel[np.unravel_index(np.argsort(-lakes, axis=None, kind="stable")[:wet], shape)] = LAKE
    roads = _roads(streams["roads"], shape, terrain.n_lines)
    fuel[roads] = ROAD
    ignition = np.ones(shape)
    ignition[_beside(roads)] = terrain.road_ignitions
    return landscape_of(
        fuel,
        name=f"synthetic {seed}",
        cell_m=cell_m,
        prevailing_deg=float(streams["prevailing wind"].uniform(0, 360)),
        elevation=elevation,
        value=1 + _villages(streams["settlements"], shape, terrain.n_settlements),
        ignition_weight=ignition,
    )


def smooth(noise: Reals, half_width: int) -> Reals:
    """Noise after three box blurs of 2 * half_width + 1 cells; edges are replicated."""
    for _ in range(_BLURS):
        for axis in (0, 1):
            noise = _box(noise, half_width, axis)
    return noise


def _box(field: Reals, half_width: int, axis: int) -> Reals:
    rows = np.moveaxis(field, axis, 0)
    padded = np.concatenate([rows[:1]] * (half_width + 1) + [rows] + [rows[-1:]] * half_width)
    sums = np.cumsum(padded, axis=0)
    size = 2 * half_width + 1
    return np.moveaxis((sums[size:] - sums[:-size]) / size, 0, axis)


def _standard(field: Reals) -> Reals:
    spread = float(field.std())
    return np.asarray((field - field.mean()) / (spread if spread > 0 else 1.0))


def _roads(rng: np.random.Generator, shape: tuple[int, int], count: int) -> Bools:
    """Straight lines through random cells, stepping along their longer axis."""
    cells = np.zeros(shape, np.bool_)
    for _ in range(count):
        middle = rng.uniform(0, 1, 2) * shape
        angle = rng.uniform(0, np.pi)
        way = np.array([np.sin(angle), np.cos(angle)])
        way /= np.abs(way).max()
        steps = np.arange(-sum(shape), sum(shape))[:, None]
        places = np.floor(middle + steps * way).astype(np.int64)
        places = places[((places >= 0) & (places < shape)).all(axis=1)]
        cells[tuple(places.T)] = True
    return cells


def _beside(roads: Bools) -> Bools:
    near = np.pad(roads, 1)
    rows, cols = roads.shape
    shifted = [near[r : r + rows, c : c + cols] for r in range(3) for c in range(3)]
    return np.asarray(np.any(shifted, axis=0), np.bool_)


def _villages(rng: np.random.Generator, shape: tuple[int, int], count: int) -> Reals:
    """Bumps of value, 9 at their peaks (so that a cell there is worth 10), 1.5 cells wide."""
    rows, cols = np.indices(shape)
    value = np.zeros(shape)
    for _ in range(count):
        row, col = rng.uniform(0, 1, 2) * shape
        bump = 9 * np.exp(-((rows - row) ** 2 + (cols - col) ** 2) / (2 * 1.5**2))
        value = np.maximum(value, bump)
    return value
