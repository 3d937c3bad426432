"""Where the time of a run goes: shares of the phases, over the run and lately."""

from __future__ import annotations

from typing import Any

import numpy as np

from briskrl.training.storage.episode_log import Clock
from briskrl.web.series.bins import Bins, Table
from briskrl.web.series.run_series import RunSeries

PLACES = 200
SMALLEST = 0.0005
"""Phases below this share of the time are left out."""


def phase_shares(series: RunSeries, clock: Clock = "env_steps") -> dict[str, Any]:
    """Seconds and shares by phase, in the order of their seconds."""
    bins = series.phases.overview().reduced(PLACES)
    names = [name for name in bins.columns if name != "env_steps"]
    spent = np.array([_spent(bins, name) for name in names]).reshape(len(names), len(bins))
    totals, all_s = spent.sum(axis=1), float(spent.sum())
    kept = [i for i in np.argsort(-totals, kind="stable") if totals[i] > SMALLEST * all_s]
    spent, names = spent[kept], [names[i] for i in kept]
    per_bin = spent.sum(axis=0)
    shares = np.divide(spent, per_bin, out=np.zeros_like(spent), where=per_bin > 0)
    lately = shares[:, -1:]
    machine = series.curve("machine_fraction", clock, PLACES)
    return {
        "names": names,
        "seconds": totals[kept].tolist(),
        "shares": [float(value) / all_s for value in totals[kept]] if all_s else [],
        "now": lately[:, 0].tolist() if lately.size else [],
        "x": bins.last("env_steps").tolist(),
        "over_time": np.round(shares, 5).tolist(),
        "machine": {"x": machine.x.tolist(), "share": machine.mean.tolist()},
        "progress": series.phases.progress,
    }


def _spent(bins: Bins, name: str) -> Table:
    """Seconds in a phase since the bin before; its clock begins anew with every session."""
    totals = np.nan_to_num(bins.last(name))
    since = np.diff(totals, prepend=0.0)
    return np.where(since >= 0, since, totals)
