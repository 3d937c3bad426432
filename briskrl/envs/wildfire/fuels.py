"""The surface fuel models: Anderson's 13, Scott and Burgan's 40, and the codes that cannot burn.

The table is kept in the units it was published in (pounds, feet, Btu); `briskrl.envs.wildfire.
behavior` converts.
"""

from __future__ import annotations

import csv
from dataclasses import dataclass, fields
from functools import cache
from importlib.resources import files

import numpy as np
from numpy.typing import ArrayLike, NDArray

from briskrl.core.types import Bools

Reals = NDArray[np.float64]

CLASSES = ("dead 1h", "dead 10h", "dead 100h", "dead herb", "live herb", "live woody")
"""The six classes of fuel particles, in the order of all arrays over classes."""
DEAD = slice(0, 4)
LIVE = slice(4, 6)
_LARGEST = 1000


@dataclass(frozen=True, slots=True)
class FuelTable:
    """All models, one row each; arrays over classes are (F, 6) and put no load in dead herb."""

    number: NDArray[np.int16]
    """(F,): code on maps, ascending."""
    code: tuple[str, ...]
    """Short names such as GR2."""
    burnable: Bools
    dynamic: Bools
    """Whether cured herbs count as dead."""
    depth_ft: Reals
    mx_dead: Reals
    """Moisture at which dead fuel stops burning, as a fraction."""
    heat_btu_lb: Reals
    load: Reals
    """(F, 6) lb/ft2, uncured."""
    sav: Reals
    """(F, 6) surface-to-volume ratios, 1/ft."""
    row_of: NDArray[np.int64]
    """(1000,): row of a code, -1 where there is no such model."""

    def rows(self, codes: ArrayLike) -> NDArray[np.int64]:
        """Rows of map codes; -1 where a code is unknown."""
        numbers = np.asarray(codes, np.int64)
        inside = (numbers >= 0) & (numbers < _LARGEST)
        return np.where(inside, self.row_of[np.where(inside, numbers, 0)], -1)


@cache
def fuel_table() -> FuelTable:
    """The published models; the arrays cannot be written to."""
    text = files("briskrl.envs.wildfire").joinpath("data/fuel_models.csv").read_text("utf-8")
    rows = list(csv.DictReader(text.splitlines()))

    def column(name: str) -> Reals:
        return np.array([float(row[name]) for row in rows])

    nothing = np.zeros(len(rows))
    number = column("number").astype(np.int16)
    row_of = np.full(_LARGEST, -1, np.int64)
    row_of[number] = np.arange(len(rows))
    loads = ["1h", "10h", "100h", None, "herb", "woody"]
    savs = ["1h", "10h", "100h", "herb", "herb", "woody"]
    table = FuelTable(
        number=number,
        code=tuple(row["code"] for row in rows),
        burnable=column("burnable") > 0,
        dynamic=column("dynamic") > 0,
        depth_ft=column("depth_ft"),
        mx_dead=column("mx_dead_frac"),
        heat_btu_lb=column("heat_btu_lb"),
        load=np.stack([column(f"load_{n}_lb_ft2") if n else nothing for n in loads], axis=1),
        sav=np.stack([column(f"sav_{n}_ft_inv") for n in savs], axis=1),
        row_of=row_of,
    )
    for part in fields(table):
        array = getattr(table, part.name)
        if isinstance(array, np.ndarray):
            array.flags.writeable = False
    return table
