"""Records that take time: prints, log lines, tables, checkpoints, and how often they are made."""

from __future__ import annotations

import ast
import re
from collections import Counter
from collections.abc import Iterator

from briskrl.doctor.report.records import Finding
from briskrl.doctor.script.costs import LOOPS, Costs, without
from briskrl.doctor.script.patterns import fixes
from briskrl.doctor.script.phases import Classified
from briskrl.doctor.script.recording import Frame

SHARE = 0.08
"""Share of the time below which records are not reported."""
ENDS = re.compile(r"done|terminat|truncat|ended|over|finished")


def record_findings(costs: Costs) -> Iterator[Finding]:
    """Findings about logging and saving."""
    for phase in ("log", "save"):
        share = costs.seen.share(phase)
        if share < SHARE:
            continue
        lines = costs.hottest(lambda item, phase=phase: item.phase == phase)  # type: ignore[misc]
        often = _how_often(costs, phase)
        cause = phase if phase == "save" or not often else f"write-{often.replace(' ', '-')}"
        yield Finding(
            cause=cause,
            title=f"{_NAMES[phase]} takes {100 * share:.0f} % of the time",
            evidence=(
                f"{1e6 * costs.seconds_per_call(share):,.0f} us per environment step"
                + (f", written {often}" if often else ""),
            ),
            advice=_ADVICE[phase],
            gain=without(share * 0.98, costs.seen.total),
            basis="predicted",
            location="" if lines is None else lines.location,
            source="" if lines is None else costs.text(lines),
            fix=fixes.RARE_CHECKPOINTS if phase == "save" else fixes.RARE_RECORDS,
        )


_NAMES = {"log": "logging", "save": "saving"}
_ADVICE = {
    "log": "keep rows in memory and write them every few seconds; print just as rarely",
    "save": "save every few minutes, or when a better policy was found",
}


def _how_often(costs: Costs, phase: str) -> str:
    """Whether records are made `per step` or `per episode`, by the conditions around the call."""
    votes: Counter[str] = Counter()
    for item, ticks in costs.sampled(lambda item: item.phase == phase):
        votes[_condition(costs, item)] += ticks
    return votes.most_common(1)[0][0] if votes else ""


def _condition(costs: Costs, item: Classified) -> str:
    """What a record depends on, from the loop inwards."""
    found = "per step"
    for frame in item.stack.loop_frames:
        for node in reversed(_around(costs, frame)):
            if isinstance(node, LOOPS):
                if _has_step(node):
                    return found
            elif isinstance(node, ast.If):
                test = ast.unparse(node.test)
                if "%" in test:
                    return ""
                if ENDS.search(test):
                    found = "per episode"
    return found


def _around(costs: Costs, frame: Frame) -> list[ast.stmt]:
    if frame.place is None:
        return []
    return costs.sources.of(frame.code.file).enclosing(frame.code, frame.place.line)


def _has_step(node: ast.stmt) -> bool:
    """Whether a loop takes environment steps itself."""
    return any(
        isinstance(part, ast.Call)
        and isinstance(part.func, ast.Attribute)
        and part.func.attr == "step"
        and bool(part.args)
        for part in ast.walk(node)
    )
