"""Two loops in alternating turns, and how many times faster one of them is."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import comb
from time import perf_counter
from typing import Protocol

import numpy as np

from briskrl.core.phase import PhaseTimer
from briskrl.doctor.clocks import read_clocks
from briskrl.doctor.report import Gain

TURN_S = 0.05
"""Shortest turn: long enough for the clock, short enough for both to meet the same machine."""
FEWEST, MOST = 6, 60
"""Pairs of turns; an interval with 95 % needs six."""
NARROW = 0.06
"""Half-width of an interval, as a share, that needs no further pairs."""


class Loop(Protocol):
    """Something that trains, one iteration at a time."""

    @property
    def timer(self) -> PhaseTimer:
        """Where its phases are counted."""
        ...

    @property
    def steps(self) -> int:
        """Transitions so far."""
        ...

    @property
    def updates(self) -> int:
        """Gradient updates so far; stays 0 if nobody counts them."""
        ...

    @property
    def episodes(self) -> int | None:
        """Episodes so far; None if nobody counts them."""
        ...

    def enter(self) -> None:
        """Called before every turn: settings of the process become this loop's."""
        ...

    def leave(self) -> None:
        """Called after every turn."""
        ...

    def iterate(self) -> None:
        """Collect some transitions and do the updates due."""
        ...

    def close(self) -> None:
        """Release everything."""
        ...


@dataclass(frozen=True, slots=True)
class Turn:
    """What a few iterations took."""

    iterations: int
    steps: int
    updates: int
    wall_s: float
    cpu_s: float
    queued_s: float
    """Part of the wall time that the thread was ready but others had the core."""

    @property
    def own_s(self) -> float:
        """Seconds without those that other programs had the core; sleeping counts."""
        return max(1e-9, self.wall_s - self.queued_s)

    @property
    def steps_per_s(self) -> float:
        """Transitions per second."""
        return self.steps / max(self.wall_s, 1e-9)

    @property
    def own_steps_per_s(self) -> float:
        """Transitions per second of its own."""
        return self.steps / self.own_s

    @property
    def steps_per_cpu_s(self) -> float:
        """Transitions per CPU second of the process; children are not counted."""
        return self.steps / max(self.cpu_s, 1e-9)


@dataclass(frozen=True, slots=True)
class Comparison:
    """How two loops compare, the second over the first."""

    gain: Gain
    cpu_gain: Gain
    pairs: int
    before: float
    """Transitions per second of the first, as a median."""
    after: float
    """The same of the second."""


def take_turn(loop: Loop, least_s: float = TURN_S) -> Turn:
    """Iterate for at least `least_s`, up to the end of a round of updates.

    Loops that learn in bursts are compared by whole rounds: a turn that ends between two updates
    would have collected what it did not learn from.
    """
    loop.enter()
    try:
        iterations, steps, updates = 0, loop.steps, loop.updates
        began = read_clocks()
        while True:
            before = loop.updates
            loop.iterate()
            iterations += 1
            at_end = loop.updates != before or not loop.updates
            if at_end and perf_counter() - began.wall_s >= least_s:
                break
        ended = read_clocks()
        return Turn(
            iterations=iterations,
            steps=loop.steps - steps,
            updates=loop.updates - updates,
            wall_s=ended.wall_s - began.wall_s,
            cpu_s=ended.cpu_s - began.cpu_s,
            queued_s=ended.queued_s - began.queued_s,
        )
    finally:
        loop.leave()


def compare(
    before: Loop,
    after: Loop,
    *,
    seconds: float,
    by_wall: bool = False,
) -> Comparison | None:
    """How many times faster `after` is; None if there was no time for three pairs.

    The order changes from pair to pair, so that a drift of the machine falls on both. Stops early
    once the interval is narrow and leaves no doubt on which side of 1 it lies.

    Args:
        before: The loop as it is.
        after: The loop with something changed.
        seconds: For both, all in all.
        by_wall: Count the time that others had the core. Where threads are compared their own
            siblings are among those others; elsewhere it is only unrest.
    """
    end = perf_counter() + seconds
    take_turn(before, 0.0), take_turn(after, 0.0)
    turns: list[tuple[Turn, Turn]] = []
    while len(turns) < MOST:
        if len(turns) % 2:
            second, first = take_turn(after), take_turn(before)
        else:
            first, second = take_turn(before), take_turn(after)
        turns.append((first, second))
        late = perf_counter() >= end
        if late or (len(turns) >= FEWEST and _is_clear(_gain(turns, by_wall))):
            break
    if len(turns) < 3:
        return None
    return Comparison(
        gain=_gain(turns, by_wall),
        cpu_gain=median_ratio([b.steps_per_cpu_s / a.steps_per_cpu_s for a, b in turns]),
        pairs=len(turns),
        before=float(np.median([a.steps_per_s for a, _ in turns])),
        after=float(np.median([b.steps_per_s for _, b in turns])),
    )


def median_ratio(ratios: Sequence[float]) -> Gain:
    """The median of ratios with an interval by their order alone, which outliers do not widen.

    The interval between the k-th smallest and the k-th largest holds the median unless fewer than
    k of the ratios fall on one side of it: the chance of that is binomial. Below six ratios the
    interval is their range, which holds the median less often than 95 %.
    """
    ordered = sorted(ratios)
    k = _rank(len(ordered))
    return Gain(float(np.median(ordered)), float(ordered[k]), float(ordered[-1 - k]))


def _rank(count: int) -> int:
    """How many ratios to leave out at either end so that at most 5 % of intervals miss."""
    tail, k = 1, 0
    while k < (count - 1) // 2:
        if 2 * (tail + comb(count, k + 1)) > 0.05 * 2**count:
            break
        k += 1
        tail += comb(count, k)
    return k


def _gain(turns: Sequence[tuple[Turn, Turn]], by_wall: bool) -> Gain:
    if by_wall:
        return median_ratio([b.steps_per_s / a.steps_per_s for a, b in turns])
    return median_ratio([b.own_steps_per_s / a.own_steps_per_s for a, b in turns])


def _is_clear(gain: Gain) -> bool:
    decided = gain.low > 1.02 or gain.high < 0.98 or (gain.low > 0.97 and gain.high < 1.03)
    return decided and gain.high - gain.low < 2 * NARROW * gain.factor
