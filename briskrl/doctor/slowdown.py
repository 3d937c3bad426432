"""Costs that grow as a loop runs: which phase grows, and how much that costs."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from briskrl.doctor.observation import Observation, Window
from briskrl.doctor.report.records import Finding, Gain
from briskrl.doctor.symptoms import P_VALUE, trend, windows_after_start

GROWTH, ON = 1.3, 1.1
"""Growth that counts: since the loop's start, and since the first observation."""
WORTH = 1.1
"""Cost of a step with the growth over that without, from which it is reported."""
FEWEST, FEWEST_LATER = 8, 3
"""Windows needed in the first and in the second observation."""
ALONE = 0.9
"""Share of a phase in a step above which the other phases are no baseline for it."""
WHOLE = "whole"
"""Stands for all phases together."""

Floats = NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class Rise:
    """A phase whose cost has risen; costs are seconds per step."""

    name: str
    first: float
    """At the loop's start."""
    at: int
    """Steps at the end of the first observation."""
    last: float
    """At the end of the first observation."""
    now: float
    """In the second observation."""
    spread: tuple[float, float]
    """Quartiles over the windows of the second observation."""


def rising_phases(seen: Observation) -> list[str]:
    """Phases whose cost rose during the observation; `WHOLE` if only their sum did."""
    return [name for name, windows in _parts(seen) if _rises(name, windows)]


def confirmed_rises(seen: Observation, later: Sequence[Window]) -> tuple[Rise, ...]:
    """Phases whose cost grows with the number of steps.

    A machine that gets busier looks the same for a while, so a cost must have risen during the
    first observation and be higher still in the second. A busy machine slows down all phases, so a
    phase must have risen relative to the others too. Phases count by CPU time; growth in waiting,
    which no phase shows that way, may still show in the whole.

    Args:
        seen: The first observation.
        later: Windows of a second observation, many steps later.
    """
    grown = []
    for name, windows in _parts(seen):
        again = [window for window in later if window.by_cpu or name == WHOLE]
        if len(again) >= FEWEST_LATER and _rises(name, windows) and _rose(name, windows, again):
            grown.append(_rise(name, windows, again))
    phases = [rise for rise in grown if rise.name != WHOLE]
    return tuple(phases or grown)


def find_slowdown(seen: Observation, later: Sequence[Window]) -> tuple[Finding | None, set[str]]:
    """The finding about growing costs, if any, and the names of the growing phases.

    The gain is that of returning to the initial cost. Its interval starts at the gain if the other
    phases, which a growing one may evict from the caches, stay as slow as they are.
    """
    parts = confirmed_rises(seen, later)
    gain = _gain(parts, windows_after_start(seen), later) if parts else None
    if gain is None or gain.factor < WORTH:
        return None, set()
    age = later[len(later) // 2].steps
    finding = Finding(
        cause="growth",
        title="steps get slower the longer the loop runs",
        evidence=tuple(_describe(rise, age) for rise in parts),
        advice="keep nothing in the loop that grows with the run: use fixed-size buffers, and "
        "running means instead of full histories",
        gain=gain,
        basis="predicted",
    )
    return finding, {rise.name for rise in parts}


def _gain(parts: Sequence[Rise], early: Sequence[Window], later: Sequence[Window]) -> Gain:
    """Cost of a step over its cost without the growth."""
    by_cpu = all(rise.name != WHOLE for rise in parts)
    whole = float(np.median(_wholes(later, by_cpu=by_cpu)))
    initial = sum(rise.first for rise in parts)
    others_now = max(0.0, whole - sum(rise.now for rise in parts))
    others = others_now
    if by_cpu:
        young = [window for window in early if window.by_cpu][:FEWEST_LATER]
        grown = [sum(_of(rise.name, window) for rise in parts) for window in young]
        others = float(np.median(_wholes(young, by_cpu=True) - np.array(grown)))
    best, worst = sorted((others, others_now))
    least, most = (sum(rise.spread[end] for rise in parts) for end in (0, 1))
    floor = 1e-3 * whole
    return Gain(
        factor=whole / max(floor, initial + best),
        low=max(1.0, (others_now + least) / max(floor, initial + worst)),
        high=(others_now + most) / max(floor, initial + best),
    )


def _wholes(windows: Sequence[Window], *, by_cpu: bool) -> Floats:
    """Seconds of a step, by CPU time where its phases are measured by that."""
    if not by_cpu:
        return _costs(WHOLE, windows)
    return np.array([sum(s.phases.values()) / s.turn.steps for s in windows if s.by_cpu])


def _of(name: str, window: Window) -> float:
    """Seconds per step of a phase, or of the whole."""
    seconds = window.turn.own_s if name == WHOLE else window.phases.get(name, 0.0)
    return seconds / window.turn.steps


def _relative(name: str, window: Window) -> float:
    """Cost of a phase relative to the others if they matter; of the whole, to its CPU time."""
    cost = _of(name, window)
    if name == WHOLE:
        return cost / max(1e-9, window.turn.cpu_s / window.turn.steps)
    whole = sum(window.phases.values()) / window.turn.steps
    return cost / (whole - cost) if cost < ALONE * whole else cost


def _parts(seen: Observation) -> list[tuple[str, Sequence[Window]]]:
    """Names that may grow, each with the windows that measure it."""
    windows = windows_after_start(seen)
    by_cpu = [window for window in windows if window.by_cpu]
    names = sorted({name for window in by_cpu for name in window.phases})
    return [*((name, by_cpu) for name in names), (WHOLE, windows)]


def _costs(name: str, windows: Sequence[Window]) -> Floats:
    return np.array([_of(name, window) for window in windows])


def _rises(name: str, windows: Sequence[Window]) -> bool:
    if len(windows) < FEWEST:
        return False
    at = np.array([window.steps for window in windows], float)
    relative = np.array([_relative(name, window) for window in windows])
    found = [trend(at, _costs(name, windows)), trend(at, relative)]
    return all(rate > 0 and p_value < P_VALUE for rate, p_value in found)


def _rose(name: str, windows: Sequence[Window], again: Sequence[Window]) -> bool:
    """Whether the cost rose enough since the start, and went on after the first observation."""
    for measure in (_of, _relative):
        first, last, now = (
            float(np.median([measure(name, window) for window in part]))
            for part in (windows[:3], _last(windows), again)
        )
        if now < GROWTH * first or now < ON * last:
            return False
    return True


def _last(windows: Sequence[Window]) -> Sequence[Window]:
    return windows[-max(1, len(windows) // 3) :]


def _rise(name: str, windows: Sequence[Window], again: Sequence[Window]) -> Rise:
    at = np.array([window.steps for window in windows], float)
    costs, later = _costs(name, windows), _costs(name, again)
    rate, _ = trend(at, costs)
    # The first windows may be late already, so the line through all of them gives the start.
    initial = float(np.median(costs - rate * at))
    return Rise(
        name=name,
        first=min(max(initial, 0.0), float(np.median(costs[:3]))),
        at=int(at[-1]),
        last=float(np.median(_costs(name, _last(windows)))),
        now=float(np.median(later)),
        spread=(float(np.quantile(later, 0.25)), float(np.quantile(later, 0.75))),
    )


def _describe(rise: Rise, age: int) -> str:
    part = "a step takes" if rise.name == WHOLE else f"the {rise.name} phase takes"
    return (
        f"{part} {1e6 * rise.first:.2f} us per step at first, {1e6 * rise.last:.2f} us after "
        f"{rise.at:,} steps, {1e6 * rise.now:.2f} us at {age:,} steps, and rising; "
        "the gain is that at this point"
    )
