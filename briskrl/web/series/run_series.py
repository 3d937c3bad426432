"""The logs of a run as curves over steps, wall seconds or CPU seconds."""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from briskrl.plots.run_metrics import TIMES
from briskrl.training.storage.episode_log import Clock
from briskrl.training.storage.training_times import total_times
from briskrl.web.series.bins import Bins, Table
from briskrl.web.series.log_series import LogSeries
from briskrl.web.series.parse import EpisodeRows, JsonRows

EPISODE_METRICS = ("score", "return")
UPDATES_PER_TRANSITION = "updates_per_transition"
MOST_RUNS = 300
"""Runs whose bins are kept in memory, about 1 MB each at most."""


@dataclass(frozen=True, slots=True)
class Curve:
    """A metric over a clock: what happened between each place and the one before."""

    x: Table
    mean: Table
    low: Table
    high: Table
    exact: bool
    """Whether every row is in it; otherwise it comes from samples."""


EMPTY = Curve(np.zeros(0), np.zeros(0), np.zeros(0), np.zeros(0), exact=True)


class RunSeries:
    """The logs of one run folder."""

    def __init__(self, folder: Path) -> None:
        self.metrics = LogSeries(folder / "metrics.jsonl", lambda head: JsonRows())
        self.evaluations = LogSeries(folder / "evaluations.jsonl", lambda head: JsonRows())
        self.phases = LogSeries(folder / "phases.jsonl", lambda head: JsonRows())
        self.episodes = LogSeries(folder / "episodes.csv", _episode_parser, skip_head=True)

    @property
    def progress(self) -> float:
        """Share of the logs of curves that has been read."""
        return min(self.metrics.progress, self.episodes.progress)

    @property
    def state(self) -> tuple[object, ...]:
        """Something that is different whenever curves may be."""
        logs = (self.metrics, self.evaluations, self.episodes)
        return tuple((log.bins.rows, log.progress, log.end) for log in logs)

    def advance(self, deadline: float) -> None:
        """Read on until a time of `time.monotonic`."""
        for series in (self.metrics, self.evaluations, self.episodes):
            series.advance(deadline)

    def names(self) -> list[str]:
        """The metrics that this run has."""
        columns = self.metrics.overview().columns
        found = [name for name in EPISODE_METRICS if len(self.episodes.overview())]
        found += ["eval"] if len(self.evaluations.overview()) else []
        found += [name for name in columns if name not in TIMES | {"mean_score", "mean_return"}]
        if "updates" in columns:
            found.append(UPDATES_PER_TRANSITION)
        return found

    def curve(
        self, metric: str, clock: Clock, points: int, window: tuple[float, float] | None = None
    ) -> Curve:
        """A metric in at most `points` places; empty if the run has none.

        Args:
            metric: Its name.
            clock: What `x` is measured in.
            points: Places at most.
            window: First and last `x`; by default everything.
        """
        log, column = self._find(metric)
        bins, exact = log.overview(), log.progress >= 1.0
        steps, seconds = self._times(clock)
        if window is not None:
            edges = np.array(window) if clock == "env_steps" else np.interp(window, seconds, steps)
            bins, exact = _zoomed(log, bins, edges, exact=exact)
        # Episodes that end at the same step are one place.
        bins = bins.reduced(points).distinct("env_steps")
        places = bins.last("env_steps")
        places = places if clock == "env_steps" else np.interp(places, steps, seconds)
        if metric == UPDATES_PER_TRANSITION:
            mean = low = high = _update_rate(bins)
        else:
            mean, low, high = bins.mean(column), bins.low(column), bins.high(column)
        known = np.isfinite(mean) & np.isfinite(places)
        return Curve(places[known], mean[known], low[known], high[known], exact)

    def _find(self, metric: str) -> tuple[LogSeries, str]:
        if metric in EPISODE_METRICS:
            return self.episodes, metric
        if metric == "eval":
            return self.evaluations, "mean_score"
        return self.metrics, metric

    def _times(self, clock: Clock) -> tuple[Table, Table]:
        """Steps and the seconds of training at them, over all sessions."""
        nothing = (np.zeros(1), np.zeros(1))
        if clock == "env_steps":
            return nothing
        bins = self.metrics.overview()
        columns = ("env_steps", "wall_s", "cpu_s", "steps_per_s")
        table = np.stack([bins.last(name) for name in columns], axis=1)
        rows = (
            dict(zip(columns, map(float, row), strict=True))
            for row in table
            if np.isfinite(row[:3]).all()
        )
        pairs = [(0.0, 0.0), *((row["env_steps"], row[clock]) for row in total_times(rows))]
        known = np.array(pairs)
        return known[:, 0], known[:, 1]


def _episode_parser(head: bytes) -> EpisodeRows:
    return EpisodeRows(head.decode("latin-1").strip().split(","))


def _zoomed(log: LogSeries, bins: Bins, steps: Table, *, exact: bool) -> tuple[Bins, bool]:
    """Finer bins between two numbers of steps, with a neighbor on each side."""
    places = bins.last("env_steps")
    if not len(places):
        return bins, exact
    first = max(0, int(np.searchsorted(places, steps[0])) - 1)
    last = min(len(places), int(np.searchsorted(places, steps[1])) + 2)
    begin = int(bins.begin[first])
    end = int(bins.begin[last]) if last < len(places) else log.end
    return log.window(begin, end)


def _update_rate(bins: Bins) -> Table:
    """Updates per transition since the bin before."""
    updates = np.diff(bins.last("updates"), prepend=0.0)
    steps = np.diff(bins.last("env_steps"), prepend=0.0)
    rate = np.divide(updates, steps, out=np.full(len(steps), np.nan), where=steps > 0)
    return np.where(rate >= 0, rate, np.nan)


class SeriesCache:
    """The series of the runs that were looked at last."""

    def __init__(self, make: Callable[[Path], RunSeries] = RunSeries) -> None:
        self._make = make
        self._kept: OrderedDict[Path, RunSeries] = OrderedDict()
        self._lock = threading.Lock()

    def of(self, folder: Path) -> RunSeries:
        """The series of a run folder."""
        with self._lock:
            found = self._kept.pop(folder, None) or self._make(folder)
            self._kept[folder] = found
            while len(self._kept) > MOST_RUNS:
                self._kept.popitem(last=False)
            return found
