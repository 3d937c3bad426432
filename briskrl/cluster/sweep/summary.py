"""The runs of one setting as a paper would report them."""

from __future__ import annotations

import math
from collections.abc import Sequence

from briskrl.cluster.statistics import FEW_RUNS
from briskrl.cluster.sweep.ledger import RunRecord
from briskrl.cluster.sweep.outcome import Spread, TrialSummary, spread_of
from briskrl.core.format import format_duration, format_figures


def summary_lines(trial: TrialSummary, metric: str) -> list[str]:
    """Interquartile mean with interval, mean, spread, number of runs, steps and CPU time.

    Only runs that are done and have the metric count, and the number of the others is in the text.
    """
    found = spread_of(list(trial.scores(metric).values()))
    if found is None:
        return [f"No finished run has a value of {metric}."]
    lines = [f"{metric} {format_spread(found)}: interquartile mean, 95 % bootstrap interval"]
    if found.runs == 1:
        lines = [f"{metric} {format_figures(found.mean)}: one run, so there is no interval"]
    else:
        lines.append(_moments(found))
    lines.append(_cost(trial.runs, found.runs))
    if 1 < found.runs < FEW_RUNS:
        lines.append(f"intervals of fewer than {FEW_RUNS} runs are too narrow")
    return lines


def format_spread(found: Spread) -> str:
    """The interquartile mean with its interval: `20.1 [19.0, 21.3]`."""
    if found.iqm_low is None or found.iqm_high is None:
        return format_figures(found.iqm)
    low, high = format_figures(found.iqm_low), format_figures(found.iqm_high)
    return f"{format_figures(found.iqm)} [{low}, {high}]"


def _moments(found: Spread) -> str:
    std = 0.0 if found.std is None else found.std
    ends = f"min {format_figures(found.min)}, max {format_figures(found.max)}"
    return f"mean {format_figures(found.mean)}, std {format_figures(std)}, {ends}"


def _cost(runs: Sequence[RunRecord], counted: int) -> str:
    results = [run.result for run in runs if run.result is not None]
    steps = sorted({int(result["env_steps"]) for result in results})
    total = math.fsum(result["cpu_s"] for result in results)
    per_run = f"{steps[0]:,}" if len(steps) == 1 else f"{steps[0]:,} to {steps[-1]:,}"
    count = str(counted) if counted == len(runs) else f"{counted} of {len(runs)}"
    noun = "run" if len(runs) == 1 else "runs"
    mean = format_duration(total / len(results))
    return (
        f"{count} {noun} of {per_run} steps; {mean} of CPU time per run, "
        f"{format_duration(total)} in total"
    )
