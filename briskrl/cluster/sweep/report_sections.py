"""The sections of a sweep's report, as Markdown."""

from __future__ import annotations

import html
from collections.abc import Iterable, Sequence
from math import fsum

from briskrl.cluster.comparison import Comparison
from briskrl.cluster.comparison_text import comparison_rows, explanations
from briskrl.cluster.sweep.importance import EVALUATOR, Importance
from briskrl.cluster.sweep.keys import describe
from briskrl.cluster.sweep.outcome import SweepResult, TrialSummary, spread_of
from briskrl.cluster.sweep.report_figures import CURVES, FIGURES, IMPORTANCE, MOST_SCORES, SCORES
from briskrl.cluster.sweep.summary import format_spread, summary_lines
from briskrl.core.format import (
    format_duration,
    format_figures,
    format_percent,
    strip_control_chars,
)
from briskrl.core.text_values import show
from briskrl.training.config import Budget

MOST_ROWS = 100
"""Rows of a table; the ledger has the rest."""
_METRICS = {
    "score": "score of the evaluation",
    "return": "return of the evaluation",
    "mean_score": "mean score of the last training episodes",
    "mean_return": "mean return of the last training episodes",
    "steps_per_s": "environment steps per second of training",
    "wall_s": "seconds of training",
    "cpu_s": "CPU seconds of training",
    "env_steps": "environment steps of training",
    "episodes": "episodes of training",
    "updates": "updates of training",
}


def overview(result: SweepResult) -> str:
    """What was swept, and how far it is."""
    info = result.info
    settings = info.settings
    algo = "several algorithms" if "algo" in info.keys else info.config.algo
    env = "several environments" if "env" in info.keys else info.config.env
    rows = [("training", f"{algo} on {env}")]
    for title, table in (("grid", settings.grid), ("range", settings.range)):
        rows += [(title, f"{name} = {_show(raw)}") for name, raw in table.items()]
    rows += [("choice", f"{name} = {_show(raw)}") for name, raw in settings.choice.items()]
    if settings.search is not None:
        pruning = "" if settings.prune == "none" else f", pruned by {settings.prune}"
        rows.append(("search", f"{settings.search} of Optuna{pruning}"))
    rows += [
        ("budget", _budget(info.config.budget)),
        ("seeds", ", ".join(map(str, info.seeds))),
        ("metric", f"{_METRICS[info.metric]}; the {_goal(result)} is the best"),
        ("evaluation", f"{settings.eval_episodes} greedy episodes with seeds of their own"),
        ("trials", str(len(result.trials))),
        ("runs", _states(result)),
        ("CPU time", format_duration(result.cpu_s)),
    ]
    return (
        f"# Sweep {_cell(info.folder.name)}\n\n{_table(rows)}\n\n"
        "All settings are in `sweep.toml`, and every run is in `trials.jsonl`."
    )


def best(result: SweepResult) -> str:
    """The best trial and, apart from its selected metric, that of the runs on fresh seeds."""
    trial, metric, again = result.best, result.info.metric, result.confirmation
    assert trial is not None
    if len(result.trials) == 1:
        return f"## Result\n\n{_bullets(summary_lines(trial, metric))}"
    count = sum(other.value(metric) is not None for other in result.trials)
    chosen = "as the only finished trial:"
    if count > 1:
        chosen = (
            f"as the best of {count} finished trials. The choice was made by these runs, so this "
            "is optimistic:"
        )
    parts = [
        f"## Best trial\n\nTrial {trial.trial}: `{_code(describe(trial.values))}`. "
        "All of its settings are in `best.toml`.",
        f"Its {metric} {chosen}\n\n{_bullets(summary_lines(trial, metric))}",
    ]
    if again is None:
        parts.append(
            "It was not run again on fresh seeds (`--confirm-seeds 5`), so there is no score of it "
            "without the bias of selection."
        )
    else:
        seeds = ", ".join(str(run.seed) for run in again.runs)
        parts.append(
            f"Its {metric} on the fresh seeds {seeds}, which played no part in the choice. "
            f"**This is the one to report:**\n\n{_bullets(summary_lines(again, metric))}"
        )
    return "\n\n".join(parts)


def trials(result: SweepResult, ranked: Sequence[TrialSummary]) -> str:
    """The finished trials by rank."""
    metric = result.info.metric
    names = list(dict.fromkeys(name for trial in ranked for name in trial.values))
    rows = [["rank", "trial", *names, f"{metric}, IQM", "mean", "runs", "CPU s per run"]]
    for place, trial in enumerate(ranked[:MOST_ROWS], 1):
        found = spread_of(list(trial.scores(metric).values()))
        assert found is not None
        values = [_show(trial.values.get(name)) for name in names]
        seconds = fsum(run.result["cpu_s"] for run in trial.runs if run.result) / found.runs
        figures = [format_spread(found), format_figures(found.mean), str(found.runs)]
        rows.append([str(place), str(trial.trial), *values, *figures, format_figures(seconds)])
    more = len(ranked) - MOST_ROWS
    note = f"\n\n{more} more are in `trials.jsonl`." if more > 0 else ""
    return (
        f"## Trials\n\n{_table(rows)}{note}\n\n"
        f"Trials are ranked by the mean over their seeds ({_goal(result)} first). IQM is the "
        "interquartile mean over seeds with its 95 % bootstrap interval."
    )


def scores(result: SweepResult, ranked: Sequence[TrialSummary]) -> str:
    """The chart of metrics."""
    shown = "All finished"
    if len(ranked) > MOST_SCORES:
        shown = f"The best {MOST_SCORES} of {len(ranked)} finished"
    return (
        f"![{result.info.metric} of the trials]({FIGURES}/{SCORES})\n\n"
        f"{shown} trials: interquartile mean (dot), 95 % interval (bar) and every run (mark)."
    )


def curves(comparison: Comparison, *, finished: int) -> str:
    """The learning curves, and what it took to reach a score."""
    shown = len(comparison.results)
    which = f"The best {shown} of {finished} finished trials" if shown < finished else "The trials"
    if finished == 1:
        which = "The runs"
    parts = [
        "## Learning curves",
        f"![learning curves]({FIGURES}/{CURVES})",
        f"{which}: interquartile mean of the episodes in training, with 95 % intervals over seeds.",
        _table(comparison_rows(comparison)),
        _bullets(explanations(comparison)),
    ]
    if comparison.notes:
        parts.append(_bullets(comparison.notes))
    return "\n\n".join(parts)


def no_curves(why: str) -> str:
    """Why there are no learning curves."""
    return f"## Learning curves\n\nThere are none. {_cell(why)}"


def importance(found: Importance | str) -> str:
    """How much each setting matters."""
    title = "## Importance of the settings\n\n"
    if isinstance(found, str):
        return f"{title}Not estimated. {_cell(found)}"
    rows = [("setting", "importance")]
    rows += [(name, format_percent(share)) for name, share in found.shares]
    return (
        f"{title}![importance]({FIGURES}/{IMPORTANCE})\n\n{_table(rows)}\n\n"
        f"Estimated by {EVALUATOR}, from {found.trials} finished trials: how much each setting "
        f"decides whether a trial is among the best {format_percent(found.part)}. With few trials "
        "this is a rough guide."
    )


def unfinished(result: SweepResult) -> str:
    """Runs that have failed, were pruned or have not ended; empty if there are none."""
    others = [run for run in result.records if run.state != "done"]
    if not others:
        return ""
    rows = [("run", "trial", "seed", "state", "cause")]
    rows += [
        (run.name, str(run.trial), str(run.seed), run.state, run.cause or "-")
        for run in others[:MOST_ROWS]
    ]
    more = len(others) - MOST_ROWS
    note = f"\n\n{more} more are in `trials.jsonl`." if more > 0 else ""
    return f"## Runs without a result\n\n{_table(rows)}{note}"


def reproduction(result: SweepResult) -> str:
    """The commands that repeat and continue the sweep."""
    lines = ["brisk sweep --config sweep.toml"]
    if result.best is not None:
        lines.append("brisk train --config best.toml")
    if any(not run.has_ended for run in result.records):
        lines.append("brisk sweep resume .")
    versions = sorted({str(run.result.get("briskrl")) for run in result.records if run.result})
    made = f" Its runs were made by briskrl {', '.join(versions)}." if versions else ""
    commands = "\n".join(lines)
    return (
        "## Reproduce\n\nIn the folder of this file: the sweep again in a new folder, and what "
        f"follows from it.{made}\n\n```sh\n{commands}\n```"
    )


def _goal(result: SweepResult) -> str:
    return "largest" if result.info.goal == "max" else "smallest"


def _budget(budget: Budget) -> str:
    limits = {"steps": budget.steps, "episodes": budget.episodes}
    known = [f"{limit:,} {unit}" for unit, limit in limits.items() if limit is not None]
    return f"{' or '.join(known)} per run"


def _states(result: SweepResult) -> str:
    counts: dict[str, int] = {}
    for run in result.records:
        counts[run.state] = counts.get(run.state, 0) + 1
    again = sum(run.confirms for run in result.records)
    note = f"; {again} of them on fresh seeds" if again else ""
    return ", ".join(f"{count} {state}" for state, count in sorted(counts.items())) + note


def _show(value: object) -> str:
    return f"{value:.4g}" if isinstance(value, float) else show(value)


def _table(rows: Iterable[Sequence[str]]) -> str:
    header, *body = rows
    lines = [header, ["---"] * len(header), *body]
    return "\n".join("| " + " | ".join(map(_cell, line)) + " |" for line in lines)


def _bullets(lines: Iterable[str]) -> str:
    return "\n".join(f"- {_cell(line)}" for line in lines)


def _cell(text: str) -> str:
    """Text from anywhere as it may stand in a table."""
    return html.escape(strip_control_chars(text), quote=False).replace("|", "\\|")


def _code(text: str) -> str:
    return strip_control_chars(text).replace("`", "'")
