"""Synthetic observations with given costs."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from briskrl.doctor.observation import Observation, Window
from briskrl.doctor.paired_turns import Turn
from briskrl.doctor.report.records import PhaseRow

COUNT = 40


def observe(
    costs: Sequence[float],
    *,
    rss: Sequence[float] | None = None,
    writes: Sequence[int] | None = None,
    episodes: Sequence[int] | None = None,
    shares: dict[str, float] | None = None,
    updates: int = 10,
    log: Sequence[float] | None = None,
) -> Observation:
    """Windows of 100 steps in 10 iterations each, at given costs per step.

    Args:
        costs: Milliseconds per step.
        rss: Memory in megabytes.
        writes: System writes in each window.
        episodes: Finished episodes in each window.
        shares: Share of each phase.
        updates: Updates in each window.
        log: Milliseconds of each step spent logging.
    """
    rng = np.random.default_rng(0)
    windows = []
    for i, cost in enumerate(costs):
        seconds = 100 * cost * 1e-3 * (1 + 0.02 * rng.normal())
        windows.append(
            Window(
                turn=Turn(10, 100, updates, seconds, seconds, 0.0),
                at_s=float(i),
                steps=100 * (i + 1),
                updates=updates * (i + 1),
                episodes=None if episodes is None else int(np.sum(episodes[: i + 1])),
                rss_mb=100.0 if rss is None else rss[i],
                writes=None if writes is None else int(np.sum(writes[: i + 1])),
                phases=_split(seconds, shares, None if log is None else 0.1 * log[i]),
                by_cpu=i % 2 == 1,
            )
        )
    rows = tuple(
        PhaseRow(name, share, share * 1e3, share * 1e3, 100, 10.0, 20.0)
        for name, share in (shares or {"update": 1.0}).items()
    )
    return Observation(tuple(windows), rows, 1.0)


def _split(
    seconds: float, shares: dict[str, float] | None, log_s: float | None
) -> dict[str, float]:
    if log_s is not None:
        return {"update": seconds - log_s, "log": log_s}
    return {name: share * seconds for name, share in (shares or {"update": 1.0}).items()}


STEADY = [5.0] * COUNT
