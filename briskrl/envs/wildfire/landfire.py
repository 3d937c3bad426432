"""Crops of a real landscape: one LANDFIRE tile of the northeastern United States, 30 m cells."""

from __future__ import annotations

from functools import cache
from importlib.resources import as_file, files

import numpy as np
from numpy.typing import NDArray

from briskrl.core.errors import ConfigError
from briskrl.core.rng import Streams
from briskrl.core.types import Ints
from briskrl.envs.wildfire.fuels import fuel_table
from briskrl.envs.wildfire.landscape import Landscape, landscape_of

CELL_M = 30.0
NO_DATA = 32767
BURNABLE_SHARE = 0.8
BANDS = {"train": (0.0, 0.6), "validation": (0.6, 0.8), "test": (0.8, 1.0)}
"""Rows of the tile that each split crops from, as fractions of its height."""


def crop(number: int, height: int, width: int, *, split: str = "train") -> Landscape:
    """Crop `number` of a split: a window without missing cells, four fifths of it burnable.

    Crops of one split may overlap; those of different splits share no row.

    Raises:
        ConfigError: The split's rows have no such window.
    """
    corners = _windows(height, width, split)
    if not len(corners):
        raise ConfigError(
            f"The LANDFIRE tile has no window of {height}x{width} cells with enough to burn in the "
            f"rows of the split {split}. Take a smaller one."
        )
    chosen = Streams(number)[f"landfire {split}"].integers(len(corners))
    row, col = corners[chosen]
    window = {key: layer[row : row + height, col : col + width] for key, layer in _tile().items()}
    flat = window["aspect"] < 0
    return landscape_of(
        window["fbfm40"],
        name=f"LANDFIRE {split} {number} (row {row}, column {col})",
        cell_m=CELL_M,
        elevation=window["elevation"],
        slope=np.where(flat, 0.0, window["slope"] / 100),
        aspect=np.where(flat, 0.0, window["aspect"]),
        canopy_cover=window["canopy_cover"] / 100,
        canopy_height=window["canopy_height"] / 10,
    )


@cache
def _tile() -> dict[str, NDArray[np.int16]]:
    with (
        as_file(files("briskrl.envs.wildfire").joinpath("data/landfire_tile.npz")) as path,
        np.load(path) as file,
    ):
        return {key: file[key] for key in file.files}


@cache
def _windows(height: int, width: int, split: str) -> Ints:
    """Top left corners (M, 2) of all windows that may be cropped, by row and column."""
    fuel = _tile()["fbfm40"]
    low, high = (round(share * len(fuel)) for share in BANDS[split])
    if high - low < height or fuel.shape[1] < width:
        return np.zeros((0, 2), np.int64)
    table = fuel_table()
    rows = table.rows(fuel)
    missing = np.any([layer == NO_DATA for layer in _tile().values()], axis=0) | (rows < 0)
    burnable = table.burnable[rows] & ~missing
    gaps = _sums(missing[low:high], height, width)
    burns = _sums(burnable[low:high], height, width)
    good = (gaps == 0) & (burns >= BURNABLE_SHARE * height * width)
    return np.asarray(np.argwhere(good) + np.array([low, 0]), np.int64)


def _sums(cells: NDArray[np.bool_], height: int, width: int) -> Ints:
    """Number of True cells in every window."""
    total = np.pad(cells.cumsum(0, dtype=np.int64).cumsum(1), ((1, 0), (1, 0)))
    return np.asarray(
        total[height:, width:]
        - total[:-height, width:]
        - total[height:, :-width]
        + total[:-height, :-width]
    )
