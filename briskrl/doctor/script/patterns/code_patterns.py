"""Slow code of the user: environments in plain Python, and calls that do not belong in a loop."""

from __future__ import annotations

import ast
import re
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass

from briskrl.doctor.report.records import Finding
from briskrl.doctor.script.costs import LOOPS, Costs, Lines, without
from briskrl.doctor.script.patterns import fixes
from briskrl.doctor.script.phases import Classified, is_own
from briskrl.doctor.script.recording import Code
from briskrl.doctor.script.source import called_name, dotted

SHARE, ENV_SHARE = 0.08, 1 / 3
"""Shares of calls and of environments below which they are not reported."""
MOSTLY = 0.35
"""Share of one function in the time of an environment from which it is to blame."""
SLOW_STEP_S = 20e-6
"""Cost of a transition in a slow environment; a compiled one takes less than a tenth."""


@dataclass(frozen=True, slots=True)
class Misplaced:
    """A call that does not belong into every step of a loop."""

    pattern: re.Pattern[str]
    cause: str
    what: str
    advice: str
    fix: str = ""
    kept: float = 0.0
    """Share of its cost that remains when it is fixed."""
    least: float = SHARE
    """Share of the time below which it is not reported."""


MISPLACED = (
    Misplaced(
        re.compile(r"^gc\.collect$"),
        "garbage",
        "explicit garbage collection",
        "leave gc.collect() out of the loop; Python collects by itself",
    ),
    Misplaced(
        re.compile(r"(^|\.)deepcopy$"),
        "deepcopy",
        "copy.deepcopy",
        "copy only what changes, and only when it is needed: load_state_dict into a network that "
        "exists already",
    ),
    Misplaced(
        re.compile(r"(^|\.)(sleep|render)$"),
        "wait",
        "sleeping or drawing",
        "leave it out of training",
    ),
    Misplaced(
        re.compile(r"(^|\.)(append|concatenate|vstack|hstack|cat|stack)$"),
        "preallocation",
        "building arrays anew at every step",
        "allocate the array once and write into it",
        fixes.RING,
        kept=0.02,
    ),
    Misplaced(
        re.compile(r"(^|\.)(Float|Long|Double|Int|Bool)?[Tt]ensor$"),
        "list-tensor",
        "making tensors of lists",
        "collect rows in one array, and make one tensor of it",
        fixes.ONE_ARRAY,
        kept=0.1,
        least=0.2,
    ),
    Misplaced(
        re.compile(r"\.load_state_dict$"),
        "target-sync",
        "copying the target network",
        "copy it every few hundred updates",
    ),
)


COMPILES = re.compile(
    r"(^|\.)jit\.(trace|script|trace_module|freeze)$|^torch\.compile$|(^|\.)n?jit$"
)
"""Calls that compile."""


def code_findings(costs: Costs) -> Iterator[Finding]:
    """Findings about code that is slow by itself."""
    yield from _slow_env(costs)
    yield from _made_envs(costs)
    yield from _compiled(costs)
    yield from _loops_over_numbers(costs)
    for kind in MISPLACED:
        yield from _misplaced(costs, kind)


def _slow_env(costs: Costs) -> Iterator[Finding]:
    share = costs.seen.share("env")
    seconds = share * costs.seen.own_s / max(1, costs.seen.steps)
    if share < ENV_SHARE or seconds < SLOW_STEP_S:
        return
    lines = _hot_function(costs)
    if lines is None:
        return
    inside = costs.share(
        lambda item: item.phase == "env" and any(map(lines.holds, item.stack.loop_frames))
    )
    if inside < MOSTLY * share:
        return
    name = lines.code.name.rsplit(".", 1)[-1]
    yield Finding(
        cause="env",
        title=f"the environment takes {100 * share:.0f} % of the time, mostly in {name}()"
        if inside > 0.5 * share
        else f"the environment takes {100 * share:.0f} %, {name}() {100 * inside:.0f} %",
        evidence=(f"{1e6 * seconds:,.0f} us per transition, in loops of plain Python",),
        advice="compute it once and look it up, or compile it; step many environments in one call",
        gain=without(inside, costs.seen.total),
        basis="ceiling",
        location=lines.location,
        source=costs.text(lines),
        fix=fixes.CACHED,
    )


def _hot_function(costs: Costs) -> Lines | None:
    """The function with a loop of its own in which an environment of the user spends its time."""
    found: Counter[Code] = Counter()
    for item, ticks in costs.sampled(lambda item: item.phase == "env"):
        for frame in item.stack.loop_frames:
            if is_own(frame) and _has_loop(costs, frame.code):
                found[frame.code] += ticks
                break
    if not found:
        return None
    code = found.most_common(1)[0][0]
    body = costs.sources.of(code.file).functions.get(code.line)
    return None if body is None else Lines(code, code.line, body.end_lineno or code.line)


def _has_loop(costs: Costs, code: Code) -> bool:
    node = costs.sources.of(code.file).functions.get(code.line)
    return node is not None and any(isinstance(part, LOOPS) for part in ast.walk(node))


def _made_envs(costs: Costs) -> Iterator[Finding]:
    share = costs.seen.share("make")
    lines = costs.hottest(lambda item: item.phase == "make")
    if share < SHARE or lines is None:
        return
    yield Finding(
        cause="make",
        title=f"building environments takes {100 * share:.0f} % of the time",
        evidence=("environments are built while the loop runs",),
        advice="build each environment once and reset it",
        gain=without(share, costs.seen.total),
        basis="predicted",
        location=lines.location,
        source=costs.text(lines),
        fix=fixes.REUSED_ENV,
    )


def _compiled(costs: Costs) -> Iterator[Finding]:
    """Networks or functions that are traced or compiled again and again, not only at first."""

    def is_it(item: Classified) -> bool:
        return item.phase == "compile" or _calls(item, costs, COMPILES)

    lines = costs.hottest(is_it)
    if costs.late_share(is_it) < SHARE or lines is None:
        return
    share = costs.late_share(lambda item: is_it(item) or _is_first_call(item, costs))
    yield Finding(
        cause="compile",
        title=f"compiling takes {100 * share:.0f} % of the time, long after the start",
        evidence=(
            f"{1e6 * costs.seconds_per_call(share):,.0f} us per environment step; what was "
            "compiled is thrown away, or every new shape or constant compiles it again",
        ),
        advice="compile once before the loop, and call the result with tensors of the same shapes",
        gain=without(0.98 * share, costs.seen.total),
        basis="predicted",
        location=lines.location,
        source=costs.text(lines),
        fix=fixes.COMPILED_ONCE,
    )


def _is_first_call(item: Classified, costs: Costs) -> bool:
    """Whether something is called in the function that has just compiled it, which is slow."""
    frame = item.site
    if frame is None or frame.place is None:
        return False
    source = costs.sources.of(frame.code.file)
    call = source.call_at(frame.place)
    if call is None:
        return False
    parts = [part for node in source.body_of(frame.code) for part in ast.walk(node)]
    compiled = {
        dotted(part.targets[0])
        for part in parts
        if isinstance(part, ast.Assign)
        and isinstance(part.value, ast.Call)
        and COMPILES.search(called_name(part.value))
    }
    return called_name(call) in compiled


def _loops_over_numbers(costs: Costs) -> Iterator[Finding]:
    """Nested loops that compute with single numbers of arrays or tensors: `x[t, i]`."""

    def is_it(item: Classified) -> bool:
        return not item.tags & WORKING and _nest(costs, item) is not None

    found: Counter[Lines] = Counter()
    for item, ticks in costs.sampled(is_it):
        lines = _nest(costs, item)
        if lines is not None:
            found[lines] += ticks
    if not found:
        return
    lines, ticks = found.most_common(1)[0]
    share = ticks / costs.seen.total
    if share < SHARE:
        return
    yield Finding(
        cause="code",
        title=f"loops over single numbers take {100 * share:.0f} % of the time",
        evidence=(f"{1e6 * costs.seconds_per_call(share):,.0f} us per environment step",),
        advice="compute with whole rows: one operation for all environments or heads at once",
        gain=without(share, costs.seen.total),
        basis="ceiling",
        location=lines.location,
        source=costs.text(lines),
        fix=fixes.WHOLE_ARRAYS,
    )


WORKING = frozenset(("env", "update", "forward", "log", "save", "store", "sample", "eval"))


def _nest(costs: Costs, item: Classified) -> Lines | None:
    """The outer one of two loops around the user's innermost line, if it indexes by both."""
    frame = item.site
    if frame is None or frame.place is None or not is_own(frame):
        return None
    around = costs.sources.of(frame.code.file).enclosing(frame.code, frame.place.line)
    loops = [node for node in around if isinstance(node, ast.For)]
    if len(loops) < 2 or not _indexes_by(loops[-1], {dotted(node.target) for node in loops[-2:]}):
        return None
    outer = loops[-2]
    return Lines(frame.code, outer.lineno, outer.end_lineno or outer.lineno)


def _indexes_by(loop: ast.For, names: set[str]) -> bool:
    """Whether something is indexed by both variables: `x[t, i]`."""
    return any(
        isinstance(node, ast.Subscript)
        and names <= {dotted(part) for part in ast.walk(node.slice) if isinstance(part, ast.Name)}
        for node in ast.walk(loop)
    )


def _misplaced(costs: Costs, kind: Misplaced) -> Iterator[Finding]:
    def is_it(item: Classified) -> bool:
        return _calls(item, costs, kind.pattern)

    share = costs.share(is_it)
    lines = costs.hottest(is_it)
    if share < kind.least or lines is None or not _is_wrong_here(kind, costs, lines):
        return
    yield Finding(
        cause=kind.cause,
        title=f"{kind.what} takes {100 * share:.0f} % of the time",
        evidence=(f"{1e6 * costs.seconds_per_call(share):,.0f} us per environment step",),
        advice=kind.advice,
        gain=without(share * (1 - kind.kept), costs.seen.total),
        basis="predicted",
        location=lines.location,
        source=costs.text(lines),
        fix=kind.fix,
    )


def _calls(item: Classified, costs: Costs, pattern: re.Pattern[str]) -> bool:
    """Whether the user's innermost code is in a call of this name."""
    frame = item.site
    if frame is None or frame.place is None:
        return False
    call = costs.sources.of(frame.code.file).call_at(frame.place)
    return call is not None and pattern.search(called_name(call)) is not None


def _is_wrong_here(kind: Misplaced, costs: Costs, lines: Lines) -> bool:
    """Joining arrays is wrong where the result replaces an argument: `x = cat([x, y])`.

    A tensor made of an array or of one number is cheap and fine; one made of a list is not.
    """
    if kind.cause == "list-tensor":
        return _makes_tensors_of_lists(costs, lines)
    if kind.cause != "preallocation":
        return True
    for node in ast.walk(costs.sources.of(lines.code.file).tree):
        if isinstance(node, ast.Assign) and lines.first <= node.lineno <= lines.last:
            target = ast.unparse(node.targets[0])
            arguments = ast.walk(node.value)
            if any(
                isinstance(part, ast.expr) and ast.unparse(part) == target for part in arguments
            ):
                return True
    return False


def _makes_tensors_of_lists(costs: Costs, lines: Lines) -> bool:
    return any(
        isinstance(node, ast.Call)
        and lines.first <= node.lineno <= lines.last
        and re.search(r"[Tt]ensor$", called_name(node)) is not None
        and bool(node.args)
        and not isinstance(node.args[0], ast.Call | ast.Attribute | ast.Constant)
        for node in ast.walk(costs.sources.of(lines.code.file).tree)
    )
