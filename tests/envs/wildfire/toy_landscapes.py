"""Small landscapes and random scenes for the tests of this folder."""

from __future__ import annotations

import numpy as np

from briskrl.envs.wildfire.directions import compass
from briskrl.envs.wildfire.landscape import Landscape, landscape_of
from briskrl.envs.wildfire.simulate import Scene
from briskrl.envs.wildfire.weather import Weather, constant_weather

DRY = (0.03, 0.04, 0.05, 0.30, 0.60)
MIXED = np.array([102, 122, 145, 165, 183, 98])


def rough_landscape(seed: int, height: int = 9, width: int = 11, *, value: bool = False):
    """Cells of any fuel on any slope: rougher than nature, to reach every branch.

    Aspects are multiples of 1/8 degree, so that turning them by 90 degrees is exact.
    """
    rng = np.random.default_rng(seed)
    shape = (height, width)
    fuel = rng.choice(MIXED, size=shape, p=[0.2, 0.2, 0.2, 0.2, 0.1, 0.1])
    fuel[0, 0] = 102
    return landscape_of(
        fuel,
        cell_m=100.0,
        slope=rng.uniform(0, 0.8, shape),
        aspect=rng.integers(0, 8 * 360, shape) / 8,
        elevation=rng.uniform(500, 700, shape),
        value=rng.uniform(0.5, 2, shape) if value else None,
    )


def some_weather(seed: int, *, duration_min: float | None = None) -> Weather:
    rng = np.random.default_rng(seed + 1000)
    duration = duration_min or float(rng.uniform(20, 2000))
    return constant_weather(
        float(rng.uniform(0, 40)), int(rng.integers(8 * 360)) / 8, DRY, duration
    )


def rough_scene(seed: int, *, directions: int = 16, leaky: bool = False, **size: int) -> Scene:
    points = compass(directions, leaky_diagonals=leaky)
    return Scene(rough_landscape(seed, **size), some_weather(seed), points)


def uniform_landscape(height: int, width: int, *, fuel: int = 102) -> Landscape:
    return landscape_of(np.full((height, width), fuel))


def random_breaks(landscape: Landscape, seed: int, share: float = 0.15) -> np.ndarray:
    rng = np.random.default_rng(seed + 2000)
    return (rng.random(landscape.cells) < share) & landscape.burnable.ravel()
