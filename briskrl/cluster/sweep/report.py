"""The report of a sweep: report.md, and the figures that it shows.

Everything in it comes from the ledger and the run folders. The same ledger gives the same report.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from briskrl.cluster.sweep import report_sections as sections
from briskrl.cluster.sweep.folder import read_sweep
from briskrl.cluster.sweep.importance import importance_of
from briskrl.cluster.sweep.ledger import read_ledger
from briskrl.cluster.sweep.outcome import SweepResult, TrialSummary
from briskrl.cluster.sweep.report_figures import (
    FigureFolder,
    compare_trials,
)
from briskrl.training.storage.atomic_files import replace, storage_errors

REPORT = "report.md"


def write_report(folder: Path) -> list[Path]:
    """Write the report of the sweep in a folder, also of one that has not ended.

    Returns:
        The paths of report.md and of its figures.

    Raises:
        BriskError: There is no sweep in the folder, or the report cannot be written.
    """
    result = SweepResult(read_sweep(folder), read_ledger(folder))
    figures = FigureFolder(folder)
    text = "\n\n".join(_parts(result, figures)) + "\n"
    path = folder / REPORT
    with storage_errors(f"write {path}"):
        replace(path, text.encode())
    return [path, *figures.written]


def rank(result: SweepResult) -> list[TrialSummary]:
    """The finished trials, the best first; the same rule chooses the best trial of the sweep."""
    metric, sign = result.info.metric, -1 if result.info.goal == "max" else 1
    values = [(trial.value(metric), trial) for trial in result.trials]
    known = [(sign * value, trial.trial, trial) for value, trial in values if value is not None]
    return [trial for _, _, trial in sorted(known, key=lambda entry: entry[:2])]


def _parts(result: SweepResult, figures: FigureFolder) -> Iterator[str]:
    ranked = rank(result)
    yield sections.overview(result)
    if ranked:
        yield sections.best(result)
        if len(result.trials) > 1:
            yield sections.trials(result, ranked)
            figures.add_scores(result, ranked)
            yield sections.scores(result, ranked)
        yield _curves(result, ranked, figures)
        if len(result.trials) > 1:
            yield _importance(result, figures)
    else:
        yield "No trial has finished."
    yield from filter(None, [sections.unfinished(result)])
    yield sections.reproduction(result)


def _curves(result: SweepResult, ranked: list[TrialSummary], figures: FigureFolder) -> str:
    comparison = compare_trials(result, ranked)
    if isinstance(comparison, str):
        return sections.no_curves(comparison)
    problem = figures.add_curves(comparison)
    if problem is not None:
        return sections.no_curves(problem)
    return sections.curves(comparison, finished=len(ranked))


def _importance(result: SweepResult, figures: FigureFolder) -> str:
    found = importance_of(result.info, result.trials)
    if not isinstance(found, str):
        figures.add_importance(found)
    return sections.importance(found)
