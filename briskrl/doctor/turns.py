"""Two loops in alternating turns, and how many times faster one of them is."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from math import exp, hypot, log
from time import perf_counter
from typing import Protocol

import numpy as np

from briskrl.bench.paired import EARLY_CONFIDENCE, Duel, Estimate, estimate
from briskrl.core.phase import PhaseTimer
from briskrl.doctor.clocks import read_clocks
from briskrl.doctor.report import Gain

TURN_S = 0.05
"""Shortest turn: long enough for the clock, short enough for both to meet the same machine."""
FEWEST, MOST = 6, 60
"""Pairs of turns."""
LASTING = 1.15
"""Gain over the time before all turns that cannot be the machine's unrest."""
NARROW = 0.04
"""Differences below this share are none; twice as much is precise enough for a gain."""


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
    watched: float | None = None,
    stops: Callable[[], bool] = lambda: False,
) -> Comparison | None:
    """How many times faster `after` is; None if there was no time for two pairs.

    The order changes from pair to pair, so that a drift of the machine falls on both. Stops early
    once the interval is narrow and leaves no doubt on which side of 1 it lies.

    Args:
        before: The loop as it is.
        after: The loop with something changed.
        seconds: For both, all in all.
        by_wall: Count the time that others had the core. Where threads are compared their own
            siblings are among those others; elsewhere it is only unrest.
        watched: Where the change may outlast its turns because both sides are one loop, the speed
            that was watched before; then a gain counts that only the time before all turns lacks.
        stops: Whether to be content with the pairs so far.
    """
    end = perf_counter() + seconds
    sides: tuple[list[Turn], list[Turn]] = ([], [])
    untouched: list[Turn] = []
    take_turn(before, 0.0)
    if watched is not None:
        for _ in range(FEWEST):
            _noted(untouched, before, by_wall=by_wall)
    take_turn(after, 0.0)
    duel = Duel(
        lambda: _noted(sides[0], before, by_wall=by_wall),
        lambda: _noted(sides[1], after, by_wall=by_wall),
    )
    while len(sides[0]) < MOST:
        duel.pair()
        late = perf_counter() >= end or stops()
        if late or (len(sides[0]) >= FEWEST and _is_clear(duel)):
            break
    if len(sides[0]) < 2:
        return None
    pairs = zip(*sides, strict=True)
    found = duel.estimate()
    if watched is not None:
        found = _lasting(found, [turn.own_steps_per_s for turn in untouched], duel, watched)
    return Comparison(
        gain=_gain(found),
        cpu_gain=_gain(estimate([log(b.steps_per_cpu_s / a.steps_per_cpu_s) for a, b in pairs])),
        pairs=len(sides[0]),
        before=float(np.median([turn.steps_per_s for turn in sides[0]])),
        after=float(np.median([turn.steps_per_s for turn in sides[1]])),
    )


def _noted(turns: list[Turn], loop: Loop, *, by_wall: bool) -> float:
    """One more turn; returns its speed."""
    turns.append(take_turn(loop))
    return turns[-1].steps_per_s if by_wall else turns[-1].own_steps_per_s


def _lasting(found: Estimate, untouched: list[float], duel: Duel, watched: float) -> Estimate:
    """The gain over the time before all turns, if that is clearly the larger one.

    The machine may have been slower then, so both that time and the one that was watched must lag
    far behind.
    """
    first, then = (estimate([log(x) for x in rates]) for rates in (untouched, duel.new_rates))
    base = max(first.ratio, watched)
    ratio = then.ratio / base
    reach = exp(hypot(log(first.high / first.ratio), log(then.high / then.ratio)))
    since = Estimate(ratio, ratio / reach, ratio * reach, found.pairs)
    return since if since.low > max(found.high, LASTING) else found


def _is_clear(duel: Duel) -> bool:
    """Whether more pairs would hardly tell more."""
    now = duel.estimate(EARLY_CONFIDENCE)
    decided = now.is_clear or (now.low > 1 - NARROW and now.high < 1 + NARROW)
    return decided and now.high - now.low < 4 * NARROW * now.ratio


def _gain(found: Estimate) -> Gain:
    return Gain(found.ratio, found.low, found.high)
