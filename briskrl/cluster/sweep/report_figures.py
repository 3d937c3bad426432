"""The figures of a sweep's report."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from briskrl.cluster.comparison import Comparison, compare_groups
from briskrl.cluster.comparison_chart import MOST_CURVES, chart_of, write_curves
from briskrl.cluster.group_names import name_groups
from briskrl.cluster.groups import RunGroup, trial_groups
from briskrl.cluster.sweep.importance import Importance
from briskrl.cluster.sweep.outcome import SweepResult, TrialSummary, spread_of
from briskrl.core.errors import BriskError
from briskrl.plots import (
    ScoreRow,
    importance_bars,
    score_intervals,
    write_chart,
)
from briskrl.training.storage.atomic_files import make_folder, storage_errors
from briskrl.training.storage.episode_log import Metric
from briskrl.training.storage.own_files import check_folder

FIGURES = "figures"
CURVES, SCORES, IMPORTANCE = "curves.svg", "scores.svg", "importance.svg"
MOST_SCORES = 20
"""Trials in the chart of final metrics."""


class FigureFolder:
    """The folder of the figures, which holds those of the last report only."""

    def __init__(self, folder: Path) -> None:
        self._path = folder / FIGURES
        check_folder(self._path)
        with storage_errors(f"write {self._path}"):
            make_folder(self._path)
            for name in (CURVES, SCORES, IMPORTANCE):
                # A link in its place would lead elsewhere.
                (self._path / name).unlink(missing_ok=True)
        self.written: list[Path] = []

    def add_curves(self, comparison: Comparison) -> str | None:
        """Draw learning curves and final scores of trials; returns why it cannot be done."""
        try:
            panel, rows = chart_of(comparison)
        except BriskError as error:
            return str(error)
        write_curves(comparison, panel, rows, self._new(CURVES))
        return None

    def add_scores(self, result: SweepResult, ranked: Sequence[TrialSummary]) -> None:
        """Draw the metric of the best trials; below the first, its reruns on fresh seeds."""
        names = {number: group.name for number, group in _trials(result).items()}
        metric, again = result.info.metric, result.confirmation
        rows = [_row(trial, names[trial.trial], metric) for trial in ranked[:MOST_SCORES]]
        if again is not None and again.scores(metric):
            rows.insert(1, _row(again, "the same on fresh seeds", metric))
        label = f"{metric}, interquartile mean and 95 % interval"
        write_chart(score_intervals(rows, x_label=label), self._new(SCORES))

    def add_importance(self, found: Importance) -> None:
        """Draw the shares of the settings."""
        write_chart(importance_bars(found.shares), self._new(IMPORTANCE))

    def _new(self, name: str) -> Path:
        self.written.append(self._path / name)
        return self.written[-1]


def compare_trials(result: SweepResult, ranked: Sequence[TrialSummary]) -> Comparison | str:
    """The comparison of the first of these trials, or why their runs cannot be compared."""
    metric: Metric = "return" if result.info.metric in ("return", "mean_return") else "score"
    try:
        groups = _trials(result)
        shown = [groups[trial.trial] for trial in ranked[:MOST_CURVES]]
        return compare_groups(shown, metric=metric, mixed_envs=True, keep_order=True)
    except BriskError as error:
        return str(error)


def _row(trial: TrialSummary, name: str, metric: str) -> ScoreRow:
    scores = tuple(trial.scores(metric).values())
    spread = spread_of(scores)
    assert spread is not None
    return ScoreRow(name, spread.iqm, spread.iqm_low, spread.iqm_high, scores)


def _trials(result: SweepResult) -> dict[int, RunGroup]:
    """The trials with their names, by number; without the reruns on fresh seeds."""
    groups = [group for group in trial_groups(result.info.folder) if not group.confirms]
    return {group.trial: group for group in name_groups(groups) if group.trial is not None}
