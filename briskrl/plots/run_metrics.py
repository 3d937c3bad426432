"""Curves of any metric of runs: one panel per metric, means over the runs of a group."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from briskrl.bench.compare import t_quantile
from briskrl.core.errors import BriskError, RunFolderError, nearest
from briskrl.core.state_checks import MALFORMED
from briskrl.plots.learning import POINTS, X_LABELS
from briskrl.plots.panels import Line, Panel
from briskrl.training.storage.episode_log import Clock, means_between, read_episodes, seconds_after
from briskrl.training.storage.line_files import read_jsonl
from briskrl.training.storage.run_dir import RunDir
from briskrl.training.storage.training_times import read_metrics

Points = NDArray[np.float64]
USUAL = ("score", "eval", "return", "loss", "entropy", "epsilon", "steps_per_s")
"""Metrics that are drawn where they exist."""
LABELS = {
    "score": "episode score",
    "return": "episode return",
    "eval": "score of evaluations",
    "steps_per_s": "steps per second",
    "updates_per_transition": "updates per transition",
    "memory_mb": "memory, MB",
    "achieved_gflops": "GFLOP/s",
    "machine_fraction": "share of the machine",
}
TIMES = {"env_steps", "wall_s", "cpu_s", "total_steps", "fraction", "eta_s", "updates", "episodes"}
"""Columns of metrics.jsonl that are no metrics."""
_MOST_ROWS = 5000
"""Rows of a run that are drawn; longer ones are thinned out."""


def metrics_of(folder: Path) -> list[str]:
    """Names of the metrics that a run has, the usual ones first."""
    names = {"score", "return"}
    if (folder / "evaluations.jsonl").is_file():
        names.add("eval")
    for row in _rows(folder):
        found = {name for name, value in row.items() if isinstance(value, int | float)}
        names |= found - TIMES - {"mean_score", "mean_return"}
    return sorted(names, key=lambda name: (USUAL.index(name) if name in USUAL else 99, name))


def metric_panels(
    groups: Mapping[str, Sequence[Path]],
    *,
    metrics: Sequence[str] = (),
    x: Clock = "env_steps",
    smooth: int = 1,
) -> list[Panel]:
    """One panel per metric with a line per group: the mean of its runs with a 95 % interval.

    Args:
        groups: Run folders by the name of their line.
        metrics: What to draw; by default the usual metrics that any run has.
        x: Quantity on the horizontal axis.
        smooth: Points over which a running mean is taken.

    Raises:
        BriskError: No run has a metric.
        RunFolderError: A file cannot be read, or there is nothing to draw yet.
    """
    known = list(
        dict.fromkeys(n for runs in groups.values() for run in runs for n in metrics_of(run))
    )
    for name in metrics:
        if name not in known:
            raise BriskError(f"No run has a metric {name!r}. {nearest(name, known)}")
    panels = []
    for name in metrics or [name for name in USUAL if name in known]:
        found = {group: _curves(runs, name, x, smooth) for group, runs in groups.items()}
        lines = [mean_line(group, curves) for group, curves in found.items() if curves]
        if lines:
            panels.append(Panel("", X_LABELS[x], LABELS.get(name, name.replace("_", " ")), lines))
    if not panels:
        raise RunFolderError("There is nothing to draw yet: no episode has finished.")
    return panels


def read_curve(folder: Path, metric: str, x: Clock) -> tuple[Points, Points]:
    """Places and values of a metric in the course of a run; empty if it has none.

    Raises:
        RunFolderError: A file cannot be read.
    """
    if metric in ("score", "return"):
        return _episode_curve(folder, "score" if metric == "score" else "return", x)
    if metric == "eval":
        return _evaluation_curve(folder, x)
    pairs = [(row[x], row[metric]) for row in _rows(folder) if row.get(metric) is not None]
    table = np.array(pairs or np.zeros((0, 2)), np.float64)
    # Bounded, however long the run was.
    table = table[:: max(1, len(table) // _MOST_ROWS)]
    table = table[np.isfinite(table).all(axis=1)]
    return table[:, 0], table[:, 1]


def _episode_curve(folder: Path, metric: str, x: Clock) -> tuple[Points, Points]:
    run = RunDir.open(folder)
    try:
        episodes = read_episodes(run, "score" if metric == "score" else "return")
    except RunFolderError:
        return np.zeros(0), np.zeros(0)
    edges = np.linspace(0, episodes.steps[-1], POINTS + 1)
    means = means_between(episodes.steps, episodes.values, edges)
    ends = edges[1:][~np.isnan(means)]
    places = ends if x == "env_steps" else seconds_after(run, ends, x)
    return places, means[~np.isnan(means)]


def _evaluation_curve(folder: Path, x: Clock) -> tuple[Points, Points]:
    path = folder / "evaluations.jsonl"
    try:
        rows = [(row["env_steps"], row["mean_score"]) for row in read_jsonl(path)]
    except FileNotFoundError:
        rows = []
    except (OSError, *MALFORMED) as error:
        raise RunFolderError(f"{path} cannot be read: {error}.") from error
    if not rows:
        return np.zeros(0), np.zeros(0)
    table = np.array(rows, np.float64)
    steps = table[:, 0]
    places = steps if x == "env_steps" else seconds_after(RunDir.open(folder), steps, x)
    return places, table[:, 1]


def _rows(folder: Path) -> list[dict[str, float]]:
    path = folder / "metrics.jsonl"
    try:
        return list(read_metrics(path)) if path.exists() else []
    except (OSError, *MALFORMED) as error:
        raise RunFolderError(f"The metrics of {folder} cannot be read: {error}.") from error


def _curves(
    runs: Sequence[Path], metric: str, x: Clock, smooth: int
) -> list[tuple[Points, Points]]:
    found = [read_curve(run, metric, x) for run in runs]
    return [(places, _smoothed(values, smooth)) for places, values in found if len(places)]


def _smoothed(values: Points, points: int) -> Points:
    """Mean of every value and the ones before it, `points` in all."""
    if points <= 1:
        return values
    totals = np.cumsum(np.concatenate(([0.0], values)))
    ends = np.arange(1, len(values) + 1)
    begins = np.maximum(0, ends - points)
    means: Points = (totals[ends] - totals[begins]) / (ends - begins)
    return means


def mean_line(name: str, curves: Sequence[tuple[Points, Points]], points: int = POINTS) -> Line:
    """The mean of the runs with a 95 % interval, as far as the shortest of them goes."""
    if len(curves) == 1:
        places, values = curves[0][0].tolist(), curves[0][1].tolist()
        return Line(name, places, values, values, values)
    begin = max(places[0] for places, _ in curves)
    end = min(places[-1] for places, _ in curves)
    grid = np.linspace(begin, max(begin, end), points)
    values = np.array([np.interp(grid, places, found) for places, found in curves])
    means = values.mean(axis=0)
    half = t_quantile(len(curves) - 1) * values.std(axis=0, ddof=1) / len(curves) ** 0.5
    return Line(
        name, grid.tolist(), means.tolist(), (means - half).tolist(), (means + half).tolist()
    )
