"""Landscapes as text (`ansi`) and as images (`rgb`), and pictures of fires for reports."""

from __future__ import annotations

from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from briskrl.core.types import Bools, Floats
from briskrl.envs.wildfire.behavior import azimuth
from briskrl.envs.wildfire.fuels import Reals
from briskrl.envs.wildfire.landscape import Landscape
from briskrl.envs.wildfire.simulate import Fires, Scene, Simulator

Image = NDArray[np.uint8]

WATER, BARE = (74, 122, 168), (150, 146, 140)
PALETTE = {
    "grass": (214, 206, 122),
    "grass-shrub": (176, 186, 98),
    "shrub": (134, 158, 82),
    "timber-understory": (84, 132, 78),
    "timber-litter": (56, 104, 70),
    "slash": (146, 114, 80),
}
BREAK = (16, 16, 18)
FIRE = (226, 62, 30)
EMBER = (88, 30, 22)
CONTOUR = (252, 236, 160)
LETTERS = {
    "grass": ".",
    "grass-shrub": ",",
    "shrub": "o",
    "timber-understory": "t",
    "timber-litter": "T",
    "slash": "s",
}
LIGHT_FROM_DEG, LIGHT_UP_DEG = 315.0, 45.0
GAP_PX = 8
"""Space between two images side by side."""


def family_of(code: int) -> str:
    """The kind of vegetation of a fuel model; empty if it cannot burn."""
    if code in (91, 92, 93, 98, 99):
        return ""
    if code < 100:
        return ("grass", "shrub", "timber-litter", "slash")[sum(code > top for top in (3, 7, 10))]
    kinds = {10: "grass", 12: "grass-shrub", 14: "shrub", 16: "timber-understory"}
    return kinds.get(code // 10, "timber-litter" if code < 200 else "slash")


def ansi(scene: Scene, treated: Bools, left: int, burned: float, untreated: float) -> str:
    """The landscape as framed text: # a break, ~ water, letters for vegetation; then the counts."""
    landscape = scene.landscape
    letters = {
        code: LETTERS.get(family_of(code), "~" if code == 98 else " ")
        for code in np.unique(landscape.fuel).tolist()
    }
    cells = np.array([[letters[code] for code in row] for row in landscape.fuel.tolist()])
    cells[treated.reshape(landscape.shape)] = "#"
    frame = "+" + "-" * landscape.shape[1] + "+"
    rows = ["|" + "".join(row) + "|" for row in cells]
    counts = f"breaks left {left}  burned {100 * burned:.1f}%  untreated {100 * untreated:.1f}%"
    return "\n".join([frame, *rows, frame, counts])


def rgb(
    scene: Scene,
    treated: Bools,
    *,
    cell_px: int = 16,
    burn_prob: Reals | None = None,
    arrival: Floats | None = None,
    until_min: float | None = None,
    contour_min: float = 60.0,
) -> Image:
    """The landscape as an image (H * cell_px, W * cell_px, 3), hills shaded, breaks black.

    Args:
        scene: The landscape.
        treated: Breaks, (cells,).
        cell_px: Side of a cell.
        burn_prob: Lay burn probabilities (cells,) over it, redder is likelier.
        arrival: Draw a fire with these arrival minutes (H, W), NaN where it does not come.
        until_min: Show the fire as it is then: cells of the last quarter hour burn, older ones are
            burned out. None shows contours instead.
        contour_min: Minutes between contours.
    """
    shape = scene.landscape.shape
    ground = ground_colors(scene.landscape)
    if burn_prob is not None:
        weight = np.clip(burn_prob.reshape(*shape, 1), 0, 1) * 0.85
        ground = ground * (1 - weight) + np.array(FIRE) * weight
    if arrival is not None and until_min is not None:
        ground[arrival <= until_min] = EMBER
        ground[(arrival <= until_min) & (arrival > until_min - _front(scene))] = FIRE
    ground[treated.reshape(shape)] = BREAK
    image = ground.astype(np.uint8).repeat(cell_px, axis=0).repeat(cell_px, axis=1)
    if arrival is not None and until_min is None:
        _draw_contours(image, arrival, cell_px, contour_min)
    return image


def fire_frames(
    scene: Scene,
    treated: Bools,
    cell: int,
    weather: int,
    *,
    frames: int = 36,
    cell_px: int = 12,
) -> list[Image]:
    """Frames of a fire over time, without breaks on the left and with them on the right."""
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
    """Write frames as a looping GIF that pauses on the last one."""
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


def _front(scene: Scene) -> float:
    """How long a cell is shown as burning, in minutes."""
    return float(scene.weather.duration_min.max()) / 12


def ground_colors(landscape: Landscape) -> Reals:
    """Colors of the vegetation (H, W, 3), lit from the northwest."""
    colors = {
        code: PALETTE.get(family_of(code), WATER if code == 98 else BARE)
        for code in np.unique(landscape.fuel).tolist()
    }
    plain = np.array([[colors[code] for code in row] for row in landscape.fuel.tolist()], float)
    return plain * _hill_shade(landscape)[..., None]


def _hill_shade(landscape: Landscape) -> Reals:
    """How brightly each cell is lit, 1 for flat ground."""
    height = np.deg2rad(LIGHT_UP_DEG)
    light_e, light_n = azimuth(LIGHT_FROM_DEG)
    east, north = azimuth(landscape.aspect)
    facing = landscape.slope * (east * light_e + north * light_n)
    # Drawn twice as steep: gentle hills would hardly show.
    lit = (np.sin(height) + 2 * np.cos(height) * facing) / np.sqrt(1 + (2 * landscape.slope) ** 2)
    return np.asarray(np.clip(lit / np.sin(height), 0.45, 1.35) / 1.35 * 1.2)


def _draw_contours(image: Image, arrival: Floats, cell_px: int, every: float) -> None:
    """Lines between cells that the fire reaches in different periods, and around the fire."""
    period = np.where(np.isnan(arrival), -1, np.nan_to_num(arrival) // every).astype(np.int64)
    line = max(1, cell_px // 8)
    for row, col in np.argwhere(period[1:] != period[:-1]):
        middle = (row + 1) * cell_px
        image[middle - line : middle + line, col * cell_px : (col + 1) * cell_px] = CONTOUR
    for row, col in np.argwhere(period[:, 1:] != period[:, :-1]):
        middle = (col + 1) * cell_px
        image[row * cell_px : (row + 1) * cell_px, middle - line : middle + line] = CONTOUR


def _beside(images: list[Image]) -> Image:
    gap = np.full((images[0].shape[0], GAP_PX, 3), 255, np.uint8)
    return np.concatenate([images[0], gap, images[1]], axis=1)
