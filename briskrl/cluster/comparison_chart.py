"""The chart of a comparison: learning curves of groups, and their final scores beside them."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from briskrl.cluster.comparison import Comparison, GroupResult
from briskrl.cluster.run_scores import RunScores
from briskrl.cluster.statistics import aggregate_curve
from briskrl.core.errors import RunFolderError
from briskrl.plots import PALETTE, Line, Panel, ScoreRow, curves_and_scores, write_chart
from briskrl.plots.learning import POINTS, X_LABELS
from briskrl.training.storage.episode_log import Clock, means_between

MOST_CURVES = len(PALETTE)
"""Groups that can be distinguished in one chart; of more, the best are shown."""

LOG_RATIO = 4
"""Ratio of the lengths of curves above which their horizontal axis is logarithmic."""


def save_comparison(
    comparison: Comparison, path: str | Path, *, clock: Clock = "env_steps"
) -> None:
    """Draw a comparison and write it as SVG, PNG or PDF.

    Raises:
        ConfigError: The file cannot be written.
        RunFolderError: See `chart_of`.
    """
    panel, rows = chart_of(comparison, clock=clock)
    write_curves(comparison, panel, rows, path)


def write_curves(
    comparison: Comparison, panel: Panel, rows: Sequence[ScoreRow], path: str | Path
) -> None:
    """Write the two parts of `chart_of`, side by side.

    The score to reach is one of training, so it is not marked among scores of evaluations.

    Raises:
        ConfigError: The file cannot be written.
    """
    mark = panel.mark if comparison.eval_episodes is None else None
    figure = curves_and_scores(panel, rows, x_label=final_label(comparison), mark=mark)
    write_chart(figure, path)


def chart_of(comparison: Comparison, *, clock: Clock = "env_steps") -> tuple[Panel, list[ScoreRow]]:
    """Interquartile means over runs with 95 % intervals, during training and at the end.

    Curves go as far as the shortest run of their group. Every point is the mean of the episodes
    since the last one.

    Raises:
        RunFolderError: The clock is one of time, and a run has no times yet; or the runs of no
            group have episodes in the same part of training.
    """
    shown = comparison.results[:MOST_CURVES]
    lines = [line for result in shown for line in _line(result, clock)]
    if not lines:
        raise RunFolderError("There are too few episodes to draw a learning curve.")
    panel = Panel(
        _title(comparison),
        X_LABELS[clock],
        f"episode {comparison.metric} in training",
        lines,
        log_x=_differ_much([line.x[-1] for line in lines]),
        mark=comparison.target.score if comparison.target else None,
    )
    rows = [
        ScoreRow(
            result.name, result.final.value, result.final.low, result.final.high, result.scores
        )
        for result in shown
    ]
    return panel, rows


def final_label(comparison: Comparison) -> str:
    """What final scores are, in a few words."""
    if comparison.eval_episodes is None:
        return f"final {comparison.metric} in training"
    return f"final {comparison.metric}, evaluation"


def _differ_much(ends: Sequence[float]) -> bool:
    """Whether the shortest curve would be pressed against the axis."""
    return max(ends) > LOG_RATIO * min(ends)


def _title(comparison: Comparison) -> str:
    hidden = len(comparison.results) - MOST_CURVES
    best = f"best {MOST_CURVES} of {len(comparison.results)} groups, " if hidden > 0 else ""
    runs = max(len(result.runs) for result in comparison.results)
    measure = "interquartile mean, 95 % interval" if runs > 1 else "one run each"
    target = comparison.target
    mark = f" (dashed: {target.score:g})" if target else ""
    return f"{' and '.join(comparison.envs)}: {best}{measure}{mark}"


def _line(result: GroupResult, clock: Clock) -> list[Line]:
    """The curve of a group; none if its runs have no episodes in the same part of training."""
    edges, curves = group_curves(result.runs, clock)
    if not len(edges):
        return []
    curve = aggregate_curve(curves)
    low = curve.value if curve.low is None else curve.low
    high = curve.value if curve.high is None else curve.high
    points = (edges, curve.value, low, high)
    return [Line(result.name, *(values.tolist() for values in points))]


def group_curves(
    runs: Sequence[RunScores], clock: Clock
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Places that all runs have reached, (P,), and the mean scores there, (runs, P).

    Where no episode has ended since the last place, the mean is that of the last place.
    """
    places = [run.places(clock) for run in runs]
    edges = np.linspace(0.0, min(place[-1] for place in places), POINTS + 1)
    means = np.array(
        [
            _filled(means_between(place, run.episodes.values, edges))
            for place, run in zip(places, runs, strict=True)
        ]
    )
    known = np.isfinite(means).all(axis=0)
    return edges[1:][known], means[:, known]


def _filled(means: NDArray[np.float64]) -> NDArray[np.float64]:
    """Gaps filled with the mean before them; those at the beginning stay NaN."""
    last = np.maximum.accumulate(np.where(np.isfinite(means), np.arange(len(means)), 0))
    filled: NDArray[np.float64] = means[last]
    return filled
