"""Landscapes: grids of fuel, terrain and value, as read-only arrays."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass, fields
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from briskrl.core.errors import ConfigError
from briskrl.core.types import Bools
from briskrl.envs.wildfire.fuels import Reals, fuel_table

LAYERS = (
    "fuel",
    "elevation",
    "slope",
    "aspect",
    "canopy_cover",
    "canopy_height",
    "value",
    "ignition_weight",
    "protected",
)
"""Names of the layers, also in files; only `fuel` is required."""
VALUE_STEPS = 65536
"""Values are multiples of 1 over this number."""
_BOUNDS = {
    "elevation": (-500.0, 9000.0),
    "slope": (0.0, 10.0),
    "aspect": (-1.0, 360.0),
    "canopy_cover": (0.0, 1.0),
    "canopy_height": (0.0, 150.0),
    "value": (0.0, 1e6),
    "ignition_weight": (0.0, 1e9),
    "protected": (0.0, 1.0),
}


@dataclass(frozen=True, slots=True, eq=False)
class Landscape:
    """A grid of square cells, row 0 in the north; all layers are (H, W) and read-only.

    Make one with `landscape_of`, which checks and completes the layers.
    """

    name: str
    cell_m: float
    """Side of a cell in meters."""
    fuel: NDArray[np.int16]
    """Codes of fuel models."""
    elevation: Reals
    """Meters."""
    slope: Reals
    """Rise over run."""
    aspect: Reals
    """Downslope azimuth in degrees clockwise from north."""
    canopy_cover: Reals
    """Fraction."""
    canopy_height: Reals
    """Meters."""
    value: Reals
    """What is lost when a cell burns, in multiples of 1 / VALUE_STEPS; 0 on cells that cannot."""
    ignition_weight: Reals
    """Relative frequency of fires starting here; 0 on cells that cannot burn."""
    protected: Bools
    """Cells that must not be treated."""
    burnable: Bools
    prevailing_deg: float | None = None
    """Prevailing wind direction; None if there is none."""

    @property
    def shape(self) -> tuple[int, int]:
        """(H, W)."""
        height, width = self.fuel.shape
        return height, width

    @property
    def cells(self) -> int:
        """H * W."""
        return self.fuel.size

    def digest(self) -> str:
        """A hash of all layers."""
        hashed = hashlib.blake2b(digest_size=16)
        for field in fields(self):
            part = getattr(self, field.name)
            if isinstance(part, np.ndarray):
                hashed.update(part.tobytes())
            else:
                hashed.update(repr(part).encode())
        return hashed.hexdigest()


def landscape_of(
    fuel: ArrayLike,
    *,
    name: str = "landscape",
    cell_m: float = 100.0,
    prevailing_deg: float | None = None,
    **layers: ArrayLike | None,
) -> Landscape:
    """A checked landscape; missing layers are flat, bare, worth 1 per cell and equally ignitable.

    Missing slope and aspect are computed from the elevation.

    Args:
        fuel: Codes of fuel models, (H, W).
        name: Its name in errors and pictures.
        cell_m: Side of a cell in meters.
        prevailing_deg: Prevailing wind direction.
        layers: Any of LAYERS, (H, W) each.

    Raises:
        ConfigError: A layer has the wrong shape, a number out of range or an unknown fuel; the
            message names the layer and the cell.
    """
    codes = _checked_fuel(fuel, name)
    given = {key: layer for key, layer in layers.items() if layer is not None}
    unknown = given.keys() - set(LAYERS)
    if unknown:
        raise ConfigError(f"{name}: unknown layer {min(unknown)!r}. Known: {', '.join(LAYERS)}.")
    if not 0 < cell_m <= 10_000:
        raise ConfigError(f"{name}: cells must be up to 10,000 m wide, not {cell_m:g}.")
    real = {key: _checked_layer(layer, key, codes.shape, name) for key, layer in given.items()}
    flat = np.zeros(codes.shape)
    elevation = real.get("elevation", flat)
    if "slope" in real and "aspect" in real:
        slope, aspect = real["slope"], real["aspect"]
    elif "slope" in real or "aspect" in real:
        missing = "aspect" if "slope" in real else "slope"
        raise ConfigError(f"{name}: the layer {missing!r} is missing; give both or neither.")
    else:
        slope, aspect = horn(elevation, cell_m)
    table = fuel_table()
    burnable = table.burnable[table.rows(codes)]
    if not burnable.any():
        raise ConfigError(f"{name}: no cell of the layer 'fuel' can burn.")
    ones = np.ones(codes.shape)
    ignition = np.where(burnable, real.get("ignition_weight", ones), 0.0)
    if not ignition.any():
        raise ConfigError(f"{name}: the layer 'ignition_weight' is 0 on every burnable cell.")
    # Multiples of a power of two add up exactly, in any order.
    value = np.where(burnable, np.round(real.get("value", ones) * VALUE_STEPS) / VALUE_STEPS, 0.0)
    if not value.any():
        raise ConfigError(f"{name}: the layer 'value' is 0 on every burnable cell.")
    return Landscape(
        name=name,
        cell_m=float(cell_m),
        fuel=_frozen(codes),
        elevation=_frozen(elevation),
        slope=_frozen(slope),
        aspect=_frozen(np.where(slope > 0, aspect % 360, 0.0)),
        canopy_cover=_frozen(real.get("canopy_cover", flat)),
        canopy_height=_frozen(real.get("canopy_height", flat)),
        value=_frozen(value),
        ignition_weight=_frozen(ignition),
        protected=_frozen(real.get("protected", flat) > 0),
        burnable=_frozen(burnable),
        prevailing_deg=prevailing_deg,
    )


def horn(elevation: Reals, cell_m: float) -> tuple[Reals, Reals]:
    """Slope (rise over run) and downslope azimuth by Horn's 3x3 differences, edges replicated."""
    z = np.pad(elevation, 1, mode="edge")
    east, west = (
        z[:-2, 2:] + 2 * z[1:-1, 2:] + z[2:, 2:],
        z[:-2, :-2] + 2 * z[1:-1, :-2] + z[2:, :-2],
    )
    north, south = (
        z[:-2, :-2] + 2 * z[:-2, 1:-1] + z[:-2, 2:],
        z[2:, :-2] + 2 * z[2:, 1:-1] + z[2:, 2:],
    )
    rise_e, rise_n = (east - west) / (8 * cell_m), (north - south) / (8 * cell_m)
    slope = np.hypot(rise_e, rise_n)
    return slope, np.rad2deg(np.arctan2(-rise_e, -rise_n)) % 360


def cell_name(shape: tuple[int, ...], flat: int) -> str:
    """A cell as "row R, column C"."""
    row, col = divmod(int(flat), shape[1])
    return f"row {row}, column {col}"


def _checked_fuel(fuel: ArrayLike, name: str) -> NDArray[np.int16]:
    codes = np.asarray(fuel)
    if codes.ndim != 2 or min(codes.shape) < 2:
        raise ConfigError(
            f"{name}: the layer 'fuel' must be a grid of 2x2 cells or more, not {codes.shape}."
        )
    rounded = np.nan_to_num(codes.astype(np.float64), nan=-1.0)
    unknown = (fuel_table().rows(rounded) < 0) | (rounded != np.floor(rounded))
    if unknown.any():
        where = int(np.flatnonzero(unknown)[0])
        raise ConfigError(
            f"{name}: the layer 'fuel' has {codes.flat[where]:g} at {cell_name(codes.shape, where)}"
            f", and {int(unknown.sum())} such cells in all: not a fuel model. Use 1-13, "
            "101-204 (Scott and Burgan), or 91, 92, 93, 98, 99 for what cannot burn."
        )
    return rounded.astype(np.int16)


def _checked_layer(layer: ArrayLike, key: str, shape: tuple[int, ...], name: str) -> Reals:
    array = np.array(layer, np.float64)
    if array.shape != shape:
        raise ConfigError(
            f"{name}: the layer {key!r} has the shape {array.shape}, but 'fuel' has {shape}."
        )
    low, high = _BOUNDS[key]
    wrong = ~((array >= low) & (array <= high))
    if wrong.any():
        where = int(np.flatnonzero(wrong)[0])
        raise ConfigError(
            f"{name}: the layer {key!r} has {array.flat[where]:g} at {cell_name(shape, where)}, "
            f"outside {low:g} to {high:g}."
        )
    return array


def _frozen(array: NDArray[Any]) -> NDArray[Any]:
    kept = np.ascontiguousarray(array).copy()
    kept.flags.writeable = False
    return kept
