"""Memory that grows with the age of a run: leaks, and replay buffers that are still filling."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from briskrl.doctor.report.records import Finding, Gain
from briskrl.doctor.script.costs import Costs, Lines, shown_path
from briskrl.doctor.script.observed import Observed
from briskrl.doctor.script.patterns import fixes
from briskrl.doctor.script.recording import AllocatingLine, Code, ScriptWindow
from briskrl.doctor.script.source import Source, called_name, dotted
from briskrl.doctor.script.tags import ADDS, is_buffer_class, name_tag
from briskrl.doctor.symptoms import P_VALUE, trend

LEAST_WINDOWS = 12
LEAK_MB, BUFFERED_BYTES = 24.0, 3_000
"""Growth of memory that counts, and bytes per transition that a replay buffer may take."""
SLOPE_MB = 3.0
"""Growth of memory from which it is worth a look where it comes from."""
MOSTLY = 0.3
"""Share of the traced memory from which one line explains it."""
NUMBERS = re.compile(r"(^|\.)(item|detach|float|int|tolist|numpy|str|format)$")
"""Calls that make a number of a tensor, or cut it from its graph."""


@dataclass(frozen=True, slots=True)
class Slope:
    """Memory that rises all the time."""

    mb_per_s: float
    grown_mb: float
    bytes_per_step: float


def slope_of(windows: Sequence[ScriptWindow]) -> Slope | None:
    """How fast memory rises while steps are taken, without the first third; None if it does not."""
    windows = [window for window in windows if window.steps]
    if len(windows) < LEAST_WINDOWS:
        return None
    late = windows[len(windows) // 3 :]
    at = np.array([window.end.wall_s for window in late])
    size = np.array([window.rss_mb for window in late])
    rate, p_value = trend(at, size)
    # Tracing memory takes some itself, so the median rate counts and not the last size.
    grown = rate * float(at[-1] - at[0])
    if p_value > P_VALUE or rate <= 0 or grown < SLOPE_MB:
        return None
    steps = late[-1].end.steps - late[0].begin.steps
    return Slope(rate, grown, grown * 2**20 / max(1, steps))


def leak_findings(costs: Costs, windows: Sequence[ScriptWindow]) -> Iterator[Finding]:
    """Memory that grows by more than a replay buffer explains."""
    slope = slope_of(windows)
    if slope is None or slope.grown_mb < LEAK_MB:
        return
    graph, traced = _kept_graph(costs), main_line(costs.seen)
    if graph is None and not _is_leak(costs, slope, traced):
        return
    lines = graph or (None if traced is None else _as_lines(costs, traced))
    yield Finding(
        cause="leak",
        title=f"memory grows by {60 * slope.mb_per_s:,.0f} MB per minute",
        evidence=(
            f"{slope.bytes_per_step:,.0f} bytes per transition",
            *([] if traced is None else [_allocated(traced)]),
        ),
        advice="keep numbers instead of tensors: a tensor keeps everything that computed it"
        if graph is not None
        else "find out what is kept per step or episode; allocate buffers once",
        gain=Gain(1.0, 1.0, 1.0),
        basis="predicted",
        location="" if lines is None else lines.location,
        source="" if lines is None else costs.text(lines),
        fix=fixes.DETACHED if graph is not None else fixes.RING,
    )


def _is_leak(costs: Costs, slope: Slope, traced: AllocatingLine | None) -> bool:
    """Whether memory grows by more than a buffer, or at a line that fills none."""
    if traced is None:
        return slope.bytes_per_step >= BUFFERED_BYTES
    return not fills_buffer(costs.sources.of(traced.file), traced.line)


def _allocated(line: AllocatingLine) -> str:
    return (
        f"most of what was allocated meanwhile and stayed is from {shown_path(line.file)}:"
        f"{line.line}, {line.size / max(1, line.count):,.0f} bytes per object"
    )


def main_line(seen: Observed) -> AllocatingLine | None:
    """The line that most of the traced memory is from, if there is one."""
    if not seen.allocated:
        return None
    first, total = seen.allocated[0], sum(line.size for line in seen.allocated)
    return first if first.size >= MOSTLY * total and first.size > 0 else None


def memory_growth(costs: Costs) -> str:
    """A phrase about memory that rises, with the line and whether a buffer fills there."""
    slope = slope_of(costs.seen.windows)
    if slope is None:
        return ""
    text = f"{60 * slope.mb_per_s:,.0f} MB per minute"
    line = main_line(costs.seen)
    if line is None:
        return text
    fills = fills_buffer(costs.sources.of(line.file), line.line)
    where = f"mostly allocated at {shown_path(line.file)}:{line.line}"
    return f"{text}, {where}" + (", where a buffer is filling" if fills else "")


def fills_buffer(source: Source, line: int) -> bool:
    """Whether a line adds to a replay buffer, or to a deque of limited length."""
    for node in ast.walk(source.tree):
        if isinstance(node, ast.ClassDef) and _holds(node, line) and is_buffer_class(node):
            return any(
                isinstance(item, ast.FunctionDef) and _holds(item, line) and ADDS.match(item.name)
                for item in node.body
            )
    calls = [
        node
        for node in ast.walk(source.tree)
        if isinstance(node, ast.Call) and node.lineno <= line <= (node.end_lineno or line)
    ]
    limited = _limited_deques(source)
    return any(
        name_tag(called_name(call)) == "store" or called_name(call).rsplit(".", 1)[0] in limited
        for call in calls
    )


def _limited_deques(source: Source) -> set[str]:
    """Names of deques with a length of their own."""
    return {
        dotted(node.targets[0])
        for node in ast.walk(source.tree)
        if isinstance(node, ast.Assign)
        and isinstance(node.value, ast.Call)
        and called_name(node.value).endswith("deque")
        and (len(node.value.args) > 1 or any(k.arg == "maxlen" for k in node.value.keywords))
    }


def _holds(node: ast.ClassDef | ast.FunctionDef, line: int) -> bool:
    return node.lineno <= line <= (node.end_lineno or node.lineno)


def _as_lines(costs: Costs, line: AllocatingLine) -> Lines:
    """The line in its function."""
    functions = costs.sources.of(line.file).functions.values()
    around = [
        node for node in functions if node.lineno <= line.line <= (node.end_lineno or node.lineno)
    ]
    inner = max(around, key=lambda node: node.lineno, default=None)
    name = "<module>" if inner is None else inner.name
    first = 1 if inner is None else inner.lineno
    return Lines(Code(line.file, name, first, in_loop=True), line.line, line.line)


def _kept_graph(costs: Costs) -> Lines | None:
    """A line that keeps a tensor on which `backward` is called: in a list, or in a sum."""
    for code in {item.site.code for item in costs.seen.stacks.values() if item.site is not None}:
        body = costs.sources.of(code.file).body_of(code)
        parts = [part for node in body for part in ast.walk(node)]
        losses = {
            called_name(part).removesuffix(".backward")
            for part in parts
            if isinstance(part, ast.Call) and called_name(part).endswith(".backward")
        } - {"?"}
        for part in parts:
            if any(_mentions(value, losses) for value in _kept_values(part, losses)):
                assert isinstance(part, ast.Call | ast.AugAssign)
                return Lines(code, part.lineno, part.end_lineno or part.lineno)
    return None


def _kept_values(part: ast.AST, losses: set[str]) -> Sequence[ast.expr]:
    """What a call appends, or a statement adds to something that is no loss itself."""
    if isinstance(part, ast.Call) and called_name(part).endswith(".append"):
        return part.args
    if isinstance(part, ast.AugAssign) and isinstance(part.op, ast.Add):
        return [] if dotted(part.target) in losses else [part.value]
    return []


def _mentions(value: ast.expr, losses: set[str]) -> bool:
    """Whether a value contains one of these tensors with its graph."""
    if isinstance(value, ast.Call) and NUMBERS.search(called_name(value)):
        return False
    if isinstance(value, ast.Name | ast.Attribute) and dotted(value) in losses:
        return True
    return any(
        _mentions(part, losses)
        for part in ast.iter_child_nodes(value)
        if isinstance(part, ast.expr)
    )
