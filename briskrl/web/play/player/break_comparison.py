"""Fuel breaks of several planners on one landscape, measured with the same held-out fires."""

from __future__ import annotations

from base64 import b64encode
from typing import Any

import numpy as np

from briskrl.core.rng import Streams
from briskrl.core.types import JSON, Bools
from briskrl.envs.wildfire.config import WildfireConfig
from briskrl.envs.wildfire.landscape_pool import Prepared
from briskrl.envs.wildfire.planning.baselines import plan_cells
from briskrl.envs.wildfire.simulate import Fires, Simulator
from briskrl.envs.wildfire.suite import TEST_FIRES
from briskrl.web.play.player.wire import RequestError

MOST_BURNED_CELLS = 4_000_000
"""Fires times cells that are burned for one number, at most."""
FEWEST_FIRES = 32
SHOWN_FIRES = 24
"""Held-out fires that the page can draw."""
MOST_PLANNED_CELLS = 1_000_000_000
"""Breaks times fires times cells above which the static plan stands for the iterative one."""
NONE, AGENT, DPV, OWN = "none", "agent", "dpv", "own"


class BreakComparison:
    """Breaks of nobody, the agent, downstream protection value (DPV) and the user.

    Args:
        prepared: The landscape.
        budget: Cells that may be treated.
        config: Settings of the environment.
    """

    def __init__(self, prepared: Prepared, budget: int, config: WildfireConfig) -> None:
        self._prepared, self._budget, self._config = prepared, budget, config
        self._simulator = Simulator(prepared.scene)
        cells = prepared.scene.landscape.cells
        count = min(TEST_FIRES, max(FEWEST_FIRES, MOST_BURNED_CELLS // cells))
        self._fires = prepared.fires("test", count)
        empty = np.zeros(cells, np.bool_)
        self._breaks: dict[str, Bools] = {NONE: empty, OWN: empty.copy()}
        exact = budget * config.plan_fires * cells <= MOST_PLANNED_CELLS
        self._planner = "dpv-iterative" if exact else "dpv-static"

    def set_breaks(self, who: str, treated: Bools) -> None:
        """Set the treated cells (cells,) of a planner."""
        self._breaks[who] = treated.copy()

    def toggle(self, cell: int) -> None:
        """Add a break of the user, or remove it.

        Raises:
            RequestError: The cell cannot be treated, or the budget is spent.
        """
        own, legal = self._breaks[OWN], self._prepared.scene.legal
        if not 0 <= cell < len(own) or not legal[cell]:
            raise RequestError("illegal-cell", "This cell cannot be treated.")
        if not own[cell] and own.sum() >= self._budget:
            raise RequestError("budget", f"All {self._budget} breaks are placed. Remove one first.")
        own[cell] ^= True

    def clear(self) -> None:
        """Remove the breaks of the user."""
        self._breaks[OWN][:] = False

    def own_as_json(self) -> dict[str, JSON]:
        """The user's breaks and what burns with them."""
        return {OWN: self._result(OWN)}

    def as_json(self) -> dict[str, JSON]:
        """The breaks of all planners and what burns with them, with the number of fires."""
        if DPV not in self._breaks:
            self._breaks[DPV] = self._planned()
        results = {who: self._result(who) for who in self._breaks}
        return {"fires": len(self._fires), "planner": self._planner, **results}

    def fires_as_json(self) -> list[JSON]:
        """The held-out fires that can be drawn: ignition cell, and wind in km/h and degrees."""
        weather = self._prepared.scene.weather
        return [
            {
                "cell": int(cell),
                "wind_kmh": round(float(weather.wind_kmh[at]), 1),
                "wind_from_deg": round(float(weather.wind_from_deg[at]), 1),
            }
            for cell, at in zip(
                self._fires.cell[:SHOWN_FIRES], self._fires.weather[:SHOWN_FIRES], strict=True
            )
        ]

    def arrivals(self, number: int) -> dict[str, JSON]:
        """When a fire arrives in each cell with the breaks of each planner.

        Returns:
            Base64 of little-endian uint16 minutes (H * W) by planner, 65535 where it does not come;
            and the last of all minutes.

        Raises:
            RequestError: There is no such fire.
        """
        shown = min(SHOWN_FIRES, len(self._fires))
        if not 0 <= number < shown:
            raise RequestError("no-fire", f"The fires are 0 to {shown - 1}.")
        cell, weather = int(self._fires.cell[number]), int(self._fires.weather[number])
        minutes = {
            who: _whole_minutes(self._simulator.arrival(cell, weather, treated).minutes)
            for who, treated in self._breaks.items()
        }
        last = max((int(m[m < _NEVER].max(initial=0)) for m in minutes.values()), default=0)
        texts = {who: b64encode(m.tobytes()).decode() for who, m in minutes.items()}
        return {"fire": number, "last": last, "minutes": texts}

    def _planned(self) -> Bools:
        """The breaks that DPV places with the training fires, as `brisk eval --suite` does."""
        cells = plan_cells(
            self._planner,
            self._simulator,
            self._prepared.fires("training", self._config.plan_fires),
            self._budget,
            Streams(self._prepared.streams_seed)["plan"],
        )
        treated = np.zeros(len(self._breaks[NONE]), np.bool_)
        treated[cells] = True
        return treated

    def _result(self, who: str) -> dict[str, JSON]:
        treated, scene = self._breaks[who], self._prepared.scene
        return {
            "cells": np.flatnonzero(treated).tolist(),
            "area": _mean_area(self._simulator, self._fires, treated) / int(scene.burnable.sum()),
            "value": self._simulator.burned_frac(self._fires, treated),
        }


_NEVER = 65535


def _whole_minutes(minutes: Any) -> np.ndarray[Any, np.dtype[np.uint16]]:
    late = np.where(np.isnan(minutes), _NEVER, np.minimum(np.nan_to_num(minutes), _NEVER - 1))
    return np.round(late).astype("<u2").ravel()


def _mean_area(simulator: Simulator, fires: Fires, treated: Bools) -> float:
    """Mean number of burned cells."""
    return float(simulator.burned_cells(fires, treated).mean())
