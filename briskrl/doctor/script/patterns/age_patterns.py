"""What changes with the age of a run: costs that grow, and a slow start."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise

import numpy as np

from briskrl.doctor.report.records import Finding
from briskrl.doctor.script.costs import Costs, Lines, without
from briskrl.doctor.script.patterns import fixes
from briskrl.doctor.script.patterns.kept_memory import LEAST_WINDOWS, leak_findings
from briskrl.doctor.script.phases import is_own
from briskrl.doctor.script.recording import Code, ScriptWindow, sum_samples
from briskrl.doctor.symptoms import P_VALUE, trend

GROWTH, SHARE, TICKS = 1.5, 0.08, 40
"""Growth of a line's cost relative to the rest, share late in the run, and ticks to be certain."""
PARTS = 12
Line = tuple[Code, int]
DOMINANT = 0.8
"""Share of a line in the time above which the rest is no baseline for it."""
FILLING = ("store", "sample")
"""Phases whose cost may grow until a replay buffer is full."""
SLOW_START, LOST_S = 1.5, 0.7
"""Cost at the start over the usual cost, and seconds lost, from which a start is slow."""


def age_findings(costs: Costs) -> Iterator[Finding]:
    """Findings about the course of the run."""
    windows = [w for w in costs.seen.windows if w.steps and w.wall_s]
    learning = [window for window in windows if window.updates] or windows
    yield from _growing_lines(costs, learning)
    yield from leak_findings(costs, learning)


@dataclass(frozen=True, slots=True)
class _Part:
    """A part of a run: ticks of every line."""

    steps: int
    own_s: float
    ticks: Counter[Line]
    total: int

    def cost_s(self, line: Line) -> float:
        """Seconds per transition that a line takes, without waiting for a core."""
        return self.ticks[line] / self.total * self.own_s / self.steps


def _growing_lines(costs: Costs, windows: Sequence[ScriptWindow]) -> Iterator[Finding]:
    if len(windows) < LEAST_WINDOWS:
        return
    ends = [len(windows) * at // PARTS for at in range(PARTS + 1)]
    # The first part is left out: buffers, caches and networks are new there.
    parts = [_part(costs, windows[begin:end]) for begin, end in pairwise(ends)][1:]
    early, late = _sum(parts[:3]), _sum(parts[-3:])
    for line, ticks in late.ticks.most_common(5):
        if ticks >= max(TICKS, SHARE * late.total) and _is_growing(line, parts, early, late):
            yield _growth(costs, line, late, early)


def _is_growing(line: Line, parts: Sequence[_Part], early: _Part, late: _Part) -> bool:
    """Whether a line's cost per step rises, and not only because the machine gets busier."""
    if late.cost_s(line) < GROWTH * early.cost_s(line):
        return False
    is_all = late.ticks[line] > DOMINANT * late.total
    if not is_all and _relative(late, line) < GROWTH * _relative(early, line):
        return False
    at = np.arange(len(parts), dtype=float)
    rate, p_value = trend(at, np.array([part.cost_s(line) for part in parts]))
    return rate > 0 and p_value < P_VALUE


def _sum(parts: Sequence[_Part]) -> _Part:
    ticks: Counter[Line] = Counter()
    for part in parts:
        ticks.update(part.ticks)
    return _Part(
        sum(p.steps for p in parts), sum(p.own_s for p in parts), ticks, sum(p.total for p in parts)
    )


def _growth(costs: Costs, line: Line, late: _Part, early: _Part) -> Finding:
    lines, share = Lines(line[0], line[1], line[1]), late.ticks[line] / late.total
    first, last = early.cost_s(line), late.cost_s(line)
    age = costs.seen.windows[-1].end.steps
    return Finding(
        cause="growth",
        title="steps get slower the longer the script runs",
        evidence=(
            f"this line took {1e6 * first:.1f} us per step at first, {1e6 * last:.1f} us at "
            f"{age:,} steps, and is rising; the gain is that at this age",
        ),
        advice="keep nothing in the loop that grows with the run: use fixed-size buffers, and "
        "running means instead of full histories",
        gain=without(share * (1 - first / last), late.total),
        basis="predicted",
        location=lines.location,
        source=costs.text(lines),
        fix=fixes.RUNNING_MEAN,
    )


def _part(costs: Costs, windows: Sequence[ScriptWindow]) -> _Part:
    ticks: Counter[Line] = Counter()
    samples = sum_samples(windows)
    for key, weight in samples.items():
        item = costs.seen.stacks[key]
        frame = item.site
        if frame is None or frame.place is None or item.phase in FILLING or not is_own(frame):
            continue
        ticks[frame.code, frame.place.line] += weight
    steps, own_s = sum(w.steps for w in windows), sum(w.own_s for w in windows)
    return _Part(steps, own_s, ticks, max(1, samples.total()))


def _relative(part: _Part, line: Line) -> float:
    """Cost of a line over that of the rest, which a busy machine slows down as much."""
    return part.ticks[line] / max(1, part.total - part.ticks[line])


def slow_start(windows: Sequence[ScriptWindow]) -> str:
    """A sentence about a slow start of the loop, and whether later steps do less; or nothing."""
    windows = [window for window in windows if window.steps]
    if len(windows) < LEAST_WINDOWS:
        return ""
    usual = float(np.median([w.own_s / w.steps for w in windows[len(windows) // 2 :]]))
    slow = []
    for window in windows:
        if window.own_s < SLOW_START * usual * window.steps:
            break
        slow.append(window)
    lost_s = sum(window.own_s - usual * window.steps for window in slow)
    if lost_s < LOST_S or len(slow) > len(windows) // 2:
        return ""
    work = _updates_per_step(windows[len(windows) // 2 :]) / max(1e-9, _updates_per_step(slow))
    less = (
        f"; later steps also do less: {work:.2g} times the updates per transition"
        if 0 < work < 0.8
        else ""
    )
    return f"the first steps were slower: {lost_s:.1f} s lost before the usual speed{less}"


def _updates_per_step(windows: Sequence[ScriptWindow]) -> float:
    return sum(w.updates for w in windows) / max(1, sum(w.steps for w in windows))
