"""Observation planes that do not change during an episode, with values between -1 and 1."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from briskrl.core.types import Floats
from briskrl.envs.wildfire.behavior import azimuth
from briskrl.envs.wildfire.directions import compass
from briskrl.envs.wildfire.fuels import Reals
from briskrl.envs.wildfire.simulate import Scene
from briskrl.envs.wildfire.travel_times import inverse_rates

DYNAMIC = ("treated", "legal", "budget")
"""Planes that change from step to step."""
FASTEST = 200.0
"""m/min; upper end of the logarithmic scale of rates."""
TALLEST = 10.0
"""m; upper end of the linear scale of flame lengths."""
LARGEST_FUEL = 204


def static_planes(scene: Scene, names: tuple[str, ...], given: Mapping[str, Reals]) -> Floats:
    """The static planes among these names, (S, H, W); `given` holds some of them."""
    wanted = [name for name in names if name not in DYNAMIC]
    planes = np.zeros((len(wanted), *scene.landscape.shape), np.float32)
    for plane, name in zip(planes, wanted, strict=True):
        found = given[name] if name in given else _plane(scene, name)
        plane[:] = np.clip(found.reshape(scene.landscape.shape), -1.0, 1.0)
    return planes


def _plane(scene: Scene, name: str) -> Reals:
    landscape, head, ways = scene.landscape, scene.tables.head, ("north", "east", "south", "west")
    plane: Reals
    if name == "rate":
        plane = _scaled_rate(head.rate.mean(axis=0))
    elif name in ways:
        # These are the first four directions of every compass.
        inverse = inverse_rates(landscape, head, compass(8))[:, ways.index(name)]
        plane = _scaled_rate((1 / inverse).mean(axis=0))
    elif name == "flame":
        plane = head.flame.mean(axis=0) / TALLEST
    elif name == "slope":
        plane = landscape.slope
    elif name in ("aspect_sin", "aspect_cos"):
        plane = azimuth(landscape.aspect)[name == "aspect_cos"] * np.minimum(landscape.slope, 1.0)
    elif name == "elevation":
        low, spread = landscape.elevation.min(), np.ptp(landscape.elevation)
        plane = (landscape.elevation - low) / (spread if spread > 0 else 1.0)
    elif name == "value":
        plane = landscape.value / landscape.value.max()
    else:
        assert name == "fuel"
        plane = landscape.fuel / LARGEST_FUEL
    return plane


def _scaled_rate(rate: Reals) -> Reals:
    return np.asarray(np.log1p(rate) / np.log1p(FASTEST))
