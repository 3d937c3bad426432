"""A comparison as a table for the terminal, and as JSON."""

from __future__ import annotations

import math
import textwrap
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import asdict

from briskrl.cluster.arrival import Arrival
from briskrl.cluster.comparison import Comparison, GroupResult
from briskrl.cluster.group_names import own_differences
from briskrl.cluster.statistics import Aggregate
from briskrl.core.format import format_columns, format_count, format_figures
from briskrl.core.types import JSON
from briskrl.plots.rows import cut_name

Format = Callable[[float], str]
LINE = 100
"""Characters of a line of text."""


def comparison_text(comparison: Comparison) -> str:
    """The table of the groups, what its columns mean, and what limits the comparison."""
    results = comparison.results
    runs = sum(len(result.runs) for result in results)
    counts = f"{_count(len(results), 'group')}, {_count(runs, 'run')}"
    remarks = [f"note: {note}" for note in comparison.notes]
    remarks += [f"left out: {entry.folder}: {entry.cause}" for entry in comparison.left_out]
    parts = [
        f"{' and '.join(comparison.envs)}: {counts}",
        format_columns(comparison_rows(comparison)),
        _wrapped(explanations(comparison)),
        _wrapped(remarks),
    ]
    return "\n\n".join(filter(None, parts))


def comparison_rows(comparison: Comparison) -> list[Sequence[str]]:
    """The table of the groups: its header, and a row for every group."""
    return list(_rows(comparison))


def comparison_json(comparison: Comparison) -> dict[str, JSON]:
    """The figures as a JSON object; infinite numbers are None."""
    target = comparison.target
    return {
        "envs": comparison.envs,
        "metric": comparison.metric,
        "final_from": "training" if comparison.eval_episodes is None else "evaluation",
        "eval_episodes": comparison.eval_episodes,
        "target": target
        and {"score": target.score, "window": target.window, "given": target.is_given},
        "best": comparison.best.name,
        "groups": [_group_json(result, comparison) for result in comparison.results],
        "left_out": [
            {"run": str(entry.folder), "cause": entry.cause} for entry in comparison.left_out
        ],
        "notes": list(comparison.notes),
    }


def _format_interval(found: Aggregate, form: Format = format_figures) -> str:
    """A value with its interval: `20.1 [19.0, 21.3]`; without, if it is unknown."""
    if found.low is None or found.high is None:
        return form(found.value)
    return f"{form(found.value)} [{form(found.low)}, {form(found.high)}]"


def _format_arrival(found: Arrival | None, form: Format) -> str:
    """A median with its interval, dashes for what is infinite, and how many runs arrived."""
    if found is None:
        return "-"
    if not found.reached:
        return "not reached"
    text = _finite(found.median, form)
    if found.low is not None and found.high is not None:
        text += f" [{_finite(found.low, form)}, {_finite(found.high, form)}]"
    return text if found.reached == found.runs else f"{text}, {found.reached} of {found.runs}"


def _count_runs(result: GroupResult) -> str:
    """Runs of a group: `5`, or `4 of 5` if some are left out."""
    count, all_of_them = len(result.runs), len(result.runs) + len(result.group.left_out)
    return str(count) if count == all_of_them else f"{count} of {all_of_them}"


def _explain_final(comparison: Comparison) -> str:
    """What the final scores are."""
    if comparison.eval_episodes is not None:
        source = f"of evaluations of {comparison.eval_episodes} episodes each"
    else:
        source = "of the episodes in the last tenth of training"
    return (
        f"final {comparison.metric}: interquartile mean over runs {source}, with a 95 % bootstrap "
        "interval"
    )


def _explain_target(comparison: Comparison) -> str:
    """What it means to reach the score; empty if there is none."""
    target = comparison.target
    if target is None:
        return ""
    mean = "a training episode"
    if target.window > 1:
        mean = f"the mean of {target.window} training episodes in a row"
    words = (
        f"to {target.score:g}: until {mean} reached it; median over runs with a 95 % interval; "
        "a dash: not reached"
    )
    if target.is_given:
        return words
    return f"{words}. {target.score:g} is 90 % of the way of the group that ends training best"


def _rows(comparison: Comparison) -> Iterator[Sequence[str]]:
    target, several = comparison.target, len(comparison.results) > 1
    header = ["group", "runs", f"final {comparison.metric}"]
    if target is not None:
        header += [f"steps to {target.score:g}", f"CPU s to {target.score:g}"]
    yield [*header, "best is better"] if several else header
    for result in comparison.results:
        row = [result.name, _count_runs(result), _format_interval(result.final)]
        if target is not None:
            row += [
                _format_arrival(result.steps, format_count),
                _format_arrival(result.cpu_s, format_figures),
            ]
        better = result.improvement
        row += ["-" if better is None else _format_interval(better, _percent)] * several
        yield row


def explanations(comparison: Comparison) -> Iterator[str]:
    """What the columns of the table mean, one sentence each."""
    yield _explain_final(comparison)
    if comparison.target is not None:
        yield _explain_target(comparison)
    if len(comparison.results) > 1:
        yield (
            f"best is better: probability that a run of '{cut_name(comparison.best.name)}' "
            f"has the higher final {comparison.metric}"
        )


def _group_json(result: GroupResult, comparison: Comparison) -> dict[str, JSON]:
    group = result.group
    differences = own_differences(group, [other.group for other in comparison.results])
    return {
        "name": result.name,
        "env": group.env,
        "algo": group.algo,
        "settings": {name: group.settings.get(name) for name in differences},
        "runs": [str(run.folder) for run in result.runs],
        "seeds": list(group.seeds),
        "env_steps": [run.env_steps for run in result.runs],
        "cpu_s": [run.cpu_s for run in result.runs],
        "scores": list(result.scores),
        "final_score": _interval_json(result.final),
        "steps_to_score": _arrival_json(result.steps),
        "cpu_s_to_score": _arrival_json(result.cpu_s),
        "best_is_better": result.improvement and _interval_json(result.improvement),
    }


def _interval_json(found: Aggregate) -> dict[str, JSON]:
    return {"value": found.value, "low": found.low, "high": found.high}


def _arrival_json(found: Arrival | None) -> dict[str, JSON] | None:
    if found is None:
        return None
    return {
        name: None if isinstance(value, float) and math.isinf(value) else value
        for name, value in asdict(found).items()
    }


def _wrapped(paragraphs: Iterable[str]) -> str:
    return "\n".join(
        textwrap.fill(
            text, LINE, subsequent_indent="  ", break_on_hyphens=False, break_long_words=False
        )
        for text in paragraphs
    )


def _count(number: int, noun: str) -> str:
    return f"{number} {noun}" if number == 1 else f"{number} {noun}s"


def _percent(share: float) -> str:
    return f"{100 * share:.0f}%"


def _finite(value: float, form: Format) -> str:
    return form(value) if math.isfinite(value) else "-"
