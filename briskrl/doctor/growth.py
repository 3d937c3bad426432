"""Costs that grow with the age of a loop: which part of it grows, and what that costs by now."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial

import numpy as np
from numpy.typing import NDArray

from briskrl.doctor.report import Finding, Gain
from briskrl.doctor.symptoms import SURE, after_start, trend
from briskrl.doctor.watch import Observation, Stretch

GROWTH, ON = 1.3, 1.1
"""Growth of a cost since the loop's birth that is no accident, and since it was first watched."""
WORTH = 1.1
"""Of what a step costs with the growth over what it costs without, to be worth a word."""
FEWEST, FEWEST_LATER = 8, 3
"""Stretches of the first look and of the second."""
WHOLE = "whole"
"""Stands for all phases together."""

Floats = NDArray[np.float64]
Cost = Callable[[Stretch], float]


@dataclass(frozen=True, slots=True)
class Rise:
    """A part of a step that has become dearer; figures are seconds a step."""

    name: str
    first: float
    """At birth."""
    slope: float
    """For every step of age."""
    at: int
    """Age in steps at the end of the first look."""
    last: float
    """There."""
    now: float
    """At the second look."""
    spread: tuple[float, float]
    """Between which the second look's stretches are, but for the outermost quarters."""


def suspects(seen: Observation) -> list[str]:
    """Phases whose cost rose while the loop was watched; `WHOLE` if only their sum did."""
    return [name for name, stretches, cost in _parts(seen) if _rises(stretches, cost)]


def rises(seen: Observation, later: Sequence[Stretch]) -> tuple[Rise, ...]:
    """Parts of the loop that cost the more the longer it has run.

    A machine that gets busier looks the same for a while, so a cost must have risen while the loop
    was watched and be higher still when it is looked at again. Phases count by the processor, which
    no neighbour takes from; growth that none of them shows may still show in the whole.

    Args:
        seen: What was watched at first.
        later: Stretches of a second look, when the loop has aged.
    """
    found = []
    for name, stretches, cost in _parts(seen):
        again = [stretch for stretch in later if stretch.by_cpu or name == WHOLE]
        if len(again) >= FEWEST_LATER and _rises(stretches, cost):
            found.append(_rise(name, stretches, again, cost))
    grown = [r for r in found if r.now >= GROWTH * r.first and r.now >= ON * r.last]
    phases = [rise for rise in grown if rise.name != WHOLE]
    return tuple(phases or grown)


def growth(seen: Observation, later: Sequence[Stretch]) -> tuple[Finding | None, set[str]]:
    """What the loop's `rises` cost at the age of the second look, and their names.

    The gain is that of the cost at birth. Its interval begins at what is left if the other parts,
    which a growing one may drive out of the caches, stay as slow as they are now.
    """
    parts = rises(seen, later)
    gain = _gain(parts, after_start(seen), later) if parts else None
    if gain is None or gain.factor < WORTH:
        return None, set()
    age = later[len(later) // 2].steps
    finding = Finding(
        cause="growth",
        title="a step costs the more the longer the loop has run",
        evidence=tuple(_told(rise, age) for rise in parts),
        advice="keep nothing that grows with the run in the loop: fixed-size memories, running "
        "means instead of lists of history",
        gain=gain,
        basis="predicted",
    )
    return finding, {rise.name for rise in parts}


def _gain(parts: Sequence[Rise], early: Sequence[Stretch], later: Sequence[Stretch]) -> Gain:
    """What a step costs now over what it would cost without the growth."""
    by_cpu = all(rise.name != WHOLE for rise in parts)
    whole = float(np.median(_wholes(later, by_cpu=by_cpu)))
    born = sum(rise.first for rise in parts)
    others_now = max(0.0, whole - sum(rise.now for rise in parts))
    others = others_now
    if by_cpu:
        young = [stretch for stretch in early if stretch.by_cpu][:FEWEST_LATER]
        grown = [sum(_of(rise.name, stretch) for rise in parts) for stretch in young]
        others = float(np.median(_wholes(young, by_cpu=True) - np.array(grown)))
    best, worst = sorted((others, others_now))
    least, most = (sum(rise.spread[end] for rise in parts) for end in (0, 1))
    floor = 1e-3 * whole
    return Gain(
        factor=whole / max(floor, born + best),
        low=max(1.0, (others_now + least) / max(floor, born + worst)),
        high=(others_now + most) / max(floor, born + best),
    )


def _wholes(stretches: Sequence[Stretch], *, by_cpu: bool) -> Floats:
    """Seconds of a step, by the processor where its parts are measured by that."""
    if not by_cpu:
        return _costs(stretches, partial(_of, WHOLE))[1]
    return np.array([sum(s.phases.values()) / s.turn.steps for s in stretches if s.by_cpu])


def _of(name: str, stretch: Stretch) -> float:
    """Seconds a step of a phase, or of the whole."""
    seconds = stretch.turn.own_s if name == WHOLE else stretch.phases.get(name, 0.0)
    return seconds / stretch.turn.steps


def _parts(seen: Observation) -> list[tuple[str, Sequence[Stretch], Cost]]:
    """What may grow, where it was seen, and how its cost is told."""
    stretches = after_start(seen)
    by_cpu = [stretch for stretch in stretches if stretch.by_cpu]
    names = sorted({name for stretch in by_cpu for name in stretch.phases})
    parts: list[tuple[str, Sequence[Stretch], Cost]] = [
        (name, by_cpu, partial(_of, name)) for name in names
    ]
    return [*parts, (WHOLE, stretches, partial(_of, WHOLE))]


def _costs(stretches: Sequence[Stretch], cost: Cost) -> tuple[Floats, Floats]:
    at = np.array([stretch.steps for stretch in stretches], float)
    return at, np.array([cost(stretch) for stretch in stretches])


def _rises(stretches: Sequence[Stretch], cost: Cost) -> bool:
    if len(stretches) < FEWEST:
        return False
    slope, chance = trend(*_costs(stretches, cost))
    return slope > 0 and chance < SURE


def _rise(name: str, stretches: Sequence[Stretch], again: Sequence[Stretch], cost: Cost) -> Rise:
    at, costs = _costs(stretches, cost)
    later = _costs(again, cost)[1]
    slope, _ = trend(at, costs)
    # Where the first stretches are old already, the line through all of them tells of the birth.
    born = float(np.median(costs - slope * at))
    return Rise(
        name=name,
        first=min(max(born, 0.0), float(np.median(costs[:3]))),
        slope=slope,
        at=int(at[-1]),
        last=float(np.median(costs[-max(1, len(costs) // 3) :])),
        now=float(np.median(later)),
        spread=(float(np.quantile(later, 0.25)), float(np.quantile(later, 0.75))),
    )


def _told(rise: Rise, age: int) -> str:
    part = "a step takes" if rise.name == WHOLE else f"its {rise.name} phase takes"
    return (
        f"{part} {1e6 * rise.first:.2f} us a step at first, {1e6 * rise.last:.2f} us after "
        f"{rise.at:,} steps, {1e6 * rise.now:.2f} us at {age:,} steps, and more every step; "
        "the gain is that at this age"
    )
