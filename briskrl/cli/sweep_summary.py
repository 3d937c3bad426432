"""Sweeps as text: the plan before, the trials and the best of them after."""

from __future__ import annotations

import shlex
from typing import TYPE_CHECKING, Any

from briskrl.cli.progress import command_name
from briskrl.cluster.sweep.keys import describe
from briskrl.cluster.sweep.outcome import Spread, SweepResult, TrialSummary, spread_of
from briskrl.core.format import format_columns, format_count, format_duration

if TYPE_CHECKING:
    from collections.abc import Sequence

    from briskrl.cluster.sweep.estimate import Estimate
    from briskrl.cluster.sweep.folder import SweepInfo
    from briskrl.cluster.sweep.plan import Plan

MOST_ROWS = 20
"""Trials of the table; the report and --json have all."""
FIRST = 5
"""Trials of a plan that are shown."""
_ENDINGS = {
    "finished": "Finished",
    "budget": "Stopped after its hours",
    "failures": "Stopped, because too many runs have failed",
    "killed": "Not finished",
    "running": "Running",
}


def summary(result: SweepResult) -> str:
    """How a sweep has ended, its trials, the best one, and commands to run next."""
    trials = result.trials
    lines = [_ending(result)]
    if result.first_cause is not None and result.count("failed"):
        lines.append(f"  first failure: {result.first_cause}")
    if len(trials) == 1 and not trials[0].values:
        lines += seeds_lines(result.info, trials[0])
    elif trials:
        lines.append(_table(result, trials))
        lines += _best(result)
    lines.append(f"  CPU time {format_duration(result.cpu_s)} in all finished runs")
    lines.append(f"  folder   {result.info.folder}")
    lines += [f"  report   {path}" for path in result.files if path.name == "report.md"]
    best = [shlex.quote(str(path)) for path in result.files if path.name == "best.toml"]
    lines += [f"  next     {command_name()} train --config {path}" for path in best]
    return "\n".join(lines)


def seeds_lines(info: SweepInfo, trial: TrialSummary) -> list[str]:
    """What a paper would report about runs that differ in their seeds only."""
    scores = trial.scores(info.metric)
    spread = spread_of(list(scores.values()))
    if spread is None:
        return []
    shown = ", ".join(f"{seed}: {format_value(value)}" for seed, value in scores.items())
    return [
        f"  {_metric(info)} of {spread.runs} run{'s' * (spread.runs != 1)}",
        f"  IQM      {_interval(spread)}",
        f"  mean     {_mean(spread)}",
        f"  range    {format_value(spread.min)} to {format_value(spread.max)}",
        f"  by seed  {shown}",
    ]


def plan_text(info: SweepInfo, plan: Plan, found: Estimate) -> str:
    """What a sweep would run, and how long it would take."""
    what = "a search" if info.settings.search else "a grid" if info.settings.grid else "seeds"
    seeds = ", ".join(map(str, info.seeds[:10])) + (", ..." if len(info.seeds) > 10 else "")
    jobs = "as many as the cluster allows" if found.jobs is None else str(found.jobs)
    lines = [
        f"{_count(found.runs, 'run')} of {info.config.algo} on {info.config.env}, {what}: "
        f"{_count(found.trials, 'trial')} on {_count(len(info.seeds), 'seed')} each",
        *_budget(info, found),
        f"  seeds    {seeds}",
        f"  compare  {_metric(info)}, goal {info.goal}",
        f"  jobs     {jobs} at a time",
    ]
    if info.settings.confirm_seeds:
        lines.append(f"  confirm  the best trial on {info.settings.confirm_seeds} fresh seeds")
    for number, values in enumerate(plan.trials[:FIRST]):
        lines.append(f"  trial {number}  {describe(values) or 'the settings as given'}")
    if len(plan.trials) > FIRST:
        lines.append(f"  ... and {len(plan.trials) - FIRST} more")
    for name in plan.space:
        raw = {**info.settings.range, **info.settings.choice}[name]
        lines.append(f"  search   {name}={raw if isinstance(raw, str) else list(raw)}")
    return "\n".join([*lines, *_times(info, found)])


def plan_json(info: SweepInfo, plan: Plan, found: Estimate) -> dict[str, Any]:
    """The plan as one JSON object."""
    return {
        "env": info.config.env,
        "algo": info.config.algo,
        "metric": info.metric,
        "goal": info.goal,
        "seeds": list(info.seeds),
        "values": [dict(values) for values in plan.trials],
        "estimate": found.as_json(),
    }


def format_value(value: float | None) -> str:
    """A metric with four significant digits, or a dash."""
    if value is None:
        return "-"
    return format_count(value) if abs(value) >= 1e5 else f"{value:.4g}"


def _budget(info: SweepInfo, found: Estimate) -> list[str]:
    """How many steps the runs take, where all take the same number."""
    steps = info.config.budget.steps
    if steps is None or "steps" in info.keys:
        return []
    most = "at most " if info.settings.prune != "none" else ""
    return [f"  steps    {steps:,} per run, {most}{steps * found.runs:,} in all"]


def _count(number: int, noun: str) -> str:
    return f"{number:,} {noun}{'s' * (number != 1)}"


def _times(info: SweepInfo, found: Estimate) -> list[str]:
    speeds = ", ".join(f"{format_count(speed)} steps/s" for speed in found.steps_per_s)
    measured = "the settings as given"
    if info.settings.search is None and info.keys:
        measured = f"{_count(len(found.steps_per_s), 'trial')}, each alone"
    if found.run_s is None:
        return [f"  time     unknown for a budget of episodes; {speeds} ({measured})"]
    lines = [f"  time     about {format_duration(found.run_s)} per run: {speeds} ({measured})"]
    if found.total_s is not None:
        most = "at most " if info.settings.prune != "none" else ""
        total = format_duration(found.total_s)
        lines.append(f"           {most}about {total} in all, plus starts and evaluations")
    return lines


def _ending(result: SweepResult) -> str:
    how = _ENDINGS.get(result.stopped, "Stopped and saved")
    counts = [f"{result.count('done')} runs done"]
    for state in ("failed", "pruned", "cancelled", "running", "planned"):
        number = result.count(state)
        if number:
            counts.append(f"{number} {state}")
    info = result.info
    return f"{how}: {', '.join(counts)} ({info.config.algo} on {info.config.env})"


def _table(result: SweepResult, trials: Sequence[TrialSummary]) -> str:
    """Trials from the best to the worst, then those without a value."""
    metric, sign = result.info.metric, -1.0 if result.info.goal == "max" else 1.0

    def rank(trial: TrialSummary) -> tuple[bool, float, int]:
        value = trial.value(metric)
        return (value is None, 0.0 if value is None else sign * value, trial.trial)

    ordered = sorted(trials, key=rank)
    rows: list[tuple[str, ...]] = [
        ("trial", metric, "mean of", "lowest to highest", "settings", "state")
    ]
    for trial in ordered[:MOST_ROWS]:
        scores = list(trial.scores(metric).values())
        ends = f"{format_value(min(scores))} to {format_value(max(scores))}" if scores else "-"
        rows.append(
            (
                str(trial.trial),
                format_value(trial.value(metric)),
                f"{len(scores)} of {len(trial.runs)}",
                ends,
                describe(trial.values),
                trial.state if trial.cause is None else f"{trial.state}: {trial.cause}",
            )
        )
    more = len(ordered) - MOST_ROWS
    return format_columns(rows) + (f"\n  ... and {more} more" if more > 0 else "")


def _best(result: SweepResult) -> list[str]:
    info, best, again = result.info, result.best, result.confirmation
    if best is None:
        return []
    lines = [f"  best     trial {best.trial}: {describe(best.values)}"]
    fresh = None if again is None else spread_of(list(again.scores(info.metric).values()))
    if fresh is not None:
        lines += [
            f"  confirmed on {fresh.runs} fresh seeds: IQM {_interval(fresh)}, mean {_mean(fresh)}",
            f"           report this, not the selected {format_value(best.value(info.metric))}",
        ]
    elif len(result.trials) > 1 and not info.settings.confirm_seeds:
        lines.append(
            f"  note     {format_value(best.value(info.metric))} is the best of "
            f"{len(result.trials)} trials, so it is too good on average; --confirm-seeds runs it "
            "on fresh seeds"
        )
    return lines


def _metric(info: SweepInfo) -> str:
    if info.metric in ("score", "return"):
        return f"{info.metric} of {info.settings.eval_episodes} evaluation episodes"
    return info.metric


def _interval(spread: Spread) -> str:
    if spread.iqm_low is None or spread.iqm_high is None:
        return f"{format_value(spread.iqm)} (one run has no interval)"
    ends = f"{format_value(spread.iqm_low)} to {format_value(spread.iqm_high)}"
    return f"{format_value(spread.iqm)} (interquartile mean, 95 % bootstrap interval {ends})"


def _mean(spread: Spread) -> str:
    if spread.std is None:
        return format_value(spread.mean)
    return f"{format_value(spread.mean)} +- {format_value(spread.std)} (standard deviation)"
