"""Costs that grow with the age of a loop: which part of it grows, and what that costs by now."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from briskrl.doctor.observation import Observation, Stretch
from briskrl.doctor.report.records import Finding, Gain
from briskrl.doctor.symptoms import SURE, after_start, trend

GROWTH, ON = 1.3, 1.1
"""Growth of a cost since the loop's birth that is no accident, and since it was first watched."""
WORTH = 1.1
"""Of what a step costs with the growth over what it costs without, to be worth a word."""
FEWEST, FEWEST_LATER = 8, 3
"""Stretches of the first look and of the second."""
ALONE = 0.9
"""Share of a phase in a step from which the others are no measure of it."""
WHOLE = "whole"
"""Stands for all phases together."""

Floats = NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class Rise:
    """A part of a step that has become dearer; figures are seconds a step."""

    name: str
    first: float
    """At birth."""
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
    return [name for name, stretches in _parts(seen) if _rises(name, stretches)]


def rises(seen: Observation, later: Sequence[Stretch]) -> tuple[Rise, ...]:
    """Parts of the loop that cost the more the longer it has run.

    A machine that gets busier looks the same for a while, so a cost must have risen while the loop
    was watched and be higher still when it is looked at again. It slows down all that computes, so
    a phase must have risen beside the others too. Phases count by the processor; growth that none
    of them shows, because it is waiting, may still show in the whole.

    Args:
        seen: What was watched at first.
        later: Stretches of a second look, when the loop has aged.
    """
    grown = []
    for name, stretches in _parts(seen):
        again = [stretch for stretch in later if stretch.by_cpu or name == WHOLE]
        if len(again) >= FEWEST_LATER and _rises(name, stretches) and _rose(name, stretches, again):
            grown.append(_rise(name, stretches, again))
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
        return _costs(WHOLE, stretches)
    return np.array([sum(s.phases.values()) / s.turn.steps for s in stretches if s.by_cpu])


def _of(name: str, stretch: Stretch) -> float:
    """Seconds a step of a phase, or of the whole."""
    seconds = stretch.turn.own_s if name == WHOLE else stretch.phases.get(name, 0.0)
    return seconds / stretch.turn.steps


def _beside(name: str, stretch: Stretch) -> float:
    """A phase beside all others, if there are more than a few; the whole beside its CPU time."""
    cost = _of(name, stretch)
    if name == WHOLE:
        return cost / max(1e-9, stretch.turn.cpu_s / stretch.turn.steps)
    whole = sum(stretch.phases.values()) / stretch.turn.steps
    return cost / (whole - cost) if cost < ALONE * whole else cost


def _parts(seen: Observation) -> list[tuple[str, Sequence[Stretch]]]:
    """What may grow, and where it was seen."""
    stretches = after_start(seen)
    by_cpu = [stretch for stretch in stretches if stretch.by_cpu]
    names = sorted({name for stretch in by_cpu for name in stretch.phases})
    return [*((name, by_cpu) for name in names), (WHOLE, stretches)]


def _costs(name: str, stretches: Sequence[Stretch]) -> Floats:
    return np.array([_of(name, stretch) for stretch in stretches])


def _rises(name: str, stretches: Sequence[Stretch]) -> bool:
    if len(stretches) < FEWEST:
        return False
    at = np.array([stretch.steps for stretch in stretches], float)
    beside = np.array([_beside(name, stretch) for stretch in stretches])
    found = [trend(at, _costs(name, stretches)), trend(at, beside)]
    return all(slope > 0 and chance < SURE for slope, chance in found)


def _rose(name: str, stretches: Sequence[Stretch], again: Sequence[Stretch]) -> bool:
    """Whether it rose far enough since the birth, and went on after the first look."""
    for measure in (_of, _beside):
        first, last, now = (
            float(np.median([measure(name, stretch) for stretch in part]))
            for part in (stretches[:3], _last(stretches), again)
        )
        if now < GROWTH * first or now < ON * last:
            return False
    return True


def _last(stretches: Sequence[Stretch]) -> Sequence[Stretch]:
    return stretches[-max(1, len(stretches) // 3) :]


def _rise(name: str, stretches: Sequence[Stretch], again: Sequence[Stretch]) -> Rise:
    at = np.array([stretch.steps for stretch in stretches], float)
    costs, later = _costs(name, stretches), _costs(name, again)
    slope, _ = trend(at, costs)
    # Where the first stretches are old already, the line through all of them tells of the birth.
    born = float(np.median(costs - slope * at))
    return Rise(
        name=name,
        first=min(max(born, 0.0), float(np.median(costs[:3]))),
        at=int(at[-1]),
        last=float(np.median(_costs(name, _last(stretches)))),
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
