"""Two loops in alternating turns, and how many times faster one of them is."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from math import exp, hypot, log
from time import perf_counter, thread_time
from typing import Protocol

import numpy as np

from briskrl.bench.compare import EARLY_CONFIDENCE, Estimate, PairedComparison, estimate
from briskrl.core.phase import PhaseTimer
from briskrl.doctor.clocks import read_clocks
from briskrl.doctor.report.records import Gain

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
    take_turn(before, 0.0)
    since = None if watched is None else _Since(before, watched)
    take_turn(after, 0.0)

    def changed() -> float:
        rate = _noted(sides[1], after, by_wall=by_wall)
        if since is not None:
            since.note(rate)
        return rate

    comparison = PairedComparison(
        old=lambda: _noted(sides[0], before, by_wall=by_wall), new=changed
    )
    while len(sides[0]) < MOST:
        comparison.take_turn()
        late = perf_counter() >= end or stops()
        if late or (len(sides[0]) >= FEWEST and _is_clear(comparison)):
            break
    if len(sides[0]) < 2:
        return None
    pairs = zip(*sides, strict=True)
    found = comparison.estimate()
    return Comparison(
        gain=_gain(found if since is None else since.or_lasting(found)),
        cpu_gain=_gain(estimate([log(b.steps_per_cpu_s / a.steps_per_cpu_s) for a, b in pairs])),
        pairs=len(sides[0]),
        before=float(np.median([turn.steps_per_s for turn in sides[0]])),
        after=float(np.median([turn.steps_per_s for turn in sides[1]])),
    )


class _Since:
    """A loop's speed before a change was first made, to hold its later speed against.

    There are no pairs here, and the machine may have been slower then. So beside every turn a fixed
    bit of work is timed, and a gain counts that is there with and without regard to that, and over
    the time that the loop was watched as well.

    Args:
        loop: The loop, still untouched.
        watched: Steps per second of its own that it did when it was watched.
    """

    def __init__(self, loop: Loop, watched: float) -> None:
        self._watched = watched
        self._then: list[tuple[float, float]] = []
        self._now: list[tuple[float, float]] = []
        for _ in range(FEWEST):
            self._then.append((take_turn(loop).own_steps_per_s, _pulse()))

    def note(self, rate: float) -> None:
        """A turn with the change."""
        self._now.append((rate, _pulse()))

    def or_lasting(self, found: Estimate) -> Estimate:
        """What was found in pairs, or the gain since the change if that is clearly larger."""
        plain = _over([rate for rate, _ in self._now], [rate for rate, _ in self._then])
        fair = _over([r / p for r, p in self._now], [r / p for r, p in self._then])
        least = min(plain, fair, key=lambda one: one.ratio)
        since_watched = float(np.median([rate for rate, _ in self._now])) / self._watched
        lasts = least.low > max(found.high, LASTING) and since_watched > LASTING
        return least if lasts else found


def _over(now: list[float], then: list[float]) -> Estimate:
    """How many times as fast, without pairs."""
    new, old = (estimate([log(rate) for rate in rates]) for rates in (now, then))
    ratio = new.ratio / old.ratio
    reach = exp(hypot(log(new.high / new.ratio), log(old.high / old.ratio)))
    return Estimate(ratio, ratio / reach, ratio * reach, new.pairs)


def _pulse() -> float:
    """How often a fixed bit of work, in Python and in NumPy, could be done in a second."""
    numbers = np.linspace(1.0, 2.0, 4096)
    begin = thread_time()
    for _ in range(100):
        np.sqrt(numbers).sum()
    return 1 / max(1e-9, thread_time() - begin)


def _noted(turns: list[Turn], loop: Loop, *, by_wall: bool) -> float:
    """One more turn; returns its speed."""
    turns.append(take_turn(loop))
    return turns[-1].steps_per_s if by_wall else turns[-1].own_steps_per_s


def _is_clear(comparison: PairedComparison) -> bool:
    """Whether more pairs would hardly tell more."""
    now = comparison.estimate(EARLY_CONFIDENCE)
    decided = now.is_clear or (now.low > 1 - NARROW and now.high < 1 + NARROW)
    return decided and now.high - now.low < 4 * NARROW * now.ratio


def _gain(found: Estimate) -> Gain:
    return Gain(found.ratio, found.low, found.high)
