"""Pictures for reports: a fire with and without breaks side by side, moving or as contours."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from briskrl.core.types import Bools
from briskrl.envs.wildfire.render import Image, rgb
from briskrl.envs.wildfire.simulate import Fires, Scene, Simulator

GAP_PX = 8


def fire_frames(
    scene: Scene,
    treated: Bools,
    cell: int,
    weather: int,
    *,
    frames: int = 36,
    cell_px: int = 12,
) -> list[Image]:
    """A fire in time, without breaks on the left and with them on the right."""
    simulator = Simulator(scene)
    bare = np.zeros_like(treated)
    sides = [
        (breaks, simulator.arrival(cell, weather, breaks).minutes) for breaks in (bare, treated)
    ]
    ends = [float(np.nanmax(minutes)) for _, minutes in sides if np.isfinite(minutes).any()]
    times = np.linspace(0, max(ends, default=1.0), frames)
    return [
        _beside(
            [
                rgb(scene, breaks, cell_px=cell_px, arrival=minutes, until_min=float(time))
                for breaks, minutes in sides
            ]
        )
        for time in times
    ]


def write_fire_gif(path: str | Path, frames: list[Image], *, fps: float = 12.0) -> None:
    """Write frames as an endlessly repeating GIF; the last one stays for a while."""
    from PIL import Image as Pillow

    images = [Pillow.fromarray(frame).quantize(64) for frame in frames]
    durations = [round(1000 / fps)] * (len(images) - 1) + [1500]
    images[0].save(path, "GIF", save_all=True, append_images=images[1:], duration=durations, loop=0)


def comparison(scene: Scene, treated: Bools, fires: Fires, *, cell_px: int = 12) -> Image:
    """Burn probabilities without and with breaks, side by side, with contours of the first fire."""
    simulator = Simulator(scene)
    bare = np.zeros_like(treated)
    cell, weather = int(fires.cell[0]), int(fires.weather[0])
    return _beside(
        [
            rgb(
                scene,
                breaks,
                cell_px=cell_px,
                burn_prob=simulator.burn_probability(fires, breaks),
                arrival=simulator.arrival(cell, weather, breaks).minutes,
            )
            for breaks in (bare, treated)
        ]
    )


def _beside(images: list[Image]) -> Image:
    gap = np.full((images[0].shape[0], GAP_PX, 3), 255, np.uint8)
    return np.concatenate([images[0], gap, images[1]], axis=1)
