"""Run two training loops in alternating turns and estimate how much faster one of them is."""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import dataclass
from math import exp, hypot, log
from time import perf_counter, process_time, thread_time
from typing import Protocol

import numpy as np

from briskrl.bench.compare import EARLY_CONFIDENCE, Estimate, PairedComparison, estimate
from briskrl.core.phase import PhaseTimer
from briskrl.doctor.report.records import Gain

TURN_S = 0.05
"""Shortest turn: long enough for the clock, short enough that both see the same machine."""
FEWEST, MOST = 6, 60
"""Pairs of turns per comparison."""
LASTING = 1.15
"""Gain over the time before all turns that cannot be measurement noise."""
NARROW = 0.04
"""Relative difference that counts as none; twice as much is precise enough for a gain."""


class Loop(Protocol):
    """A training loop that runs one iteration at a time."""

    @property
    def timer(self) -> PhaseTimer:
        """Timer of its phases."""
        ...

    @property
    def steps(self) -> int:
        """Transitions so far."""
        ...

    @property
    def updates(self) -> int:
        """Gradient updates so far; stays 0 if they are not counted."""
        ...

    @property
    def episodes(self) -> int | None:
        """Episodes so far; None if they are not counted."""
        ...

    def enter(self) -> None:
        """Called before every turn; applies process-wide settings that this loop needs."""
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
class ClockReading:
    """Values of all clocks at one moment."""

    wall_s: float
    cpu_s: float
    """CPU seconds of all threads of this process."""
    queued_s: float
    """Seconds this thread was runnable but not running; 0 where the system does not report it."""


def read_clocks() -> ClockReading:
    """Read all clocks."""
    return ClockReading(perf_counter(), process_time(), _queued_s())


def _queued_s() -> float:
    # Linux: nanoseconds on a processor, nanoseconds waiting for one, number of turns.
    try:
        descriptor = os.open("/proc/thread-self/schedstat", os.O_RDONLY)
    except OSError:
        return 0.0
    try:
        return int(os.read(descriptor, 96).split()[1]) / 1e9
    except (OSError, IndexError, ValueError):
        return 0.0
    finally:
        os.close(descriptor)


@dataclass(frozen=True, slots=True)
class Turn:
    """Cost of a few iterations."""

    iterations: int
    steps: int
    updates: int
    wall_s: float
    cpu_s: float
    queued_s: float
    """Part of the wall time in which the thread was runnable but other programs had the core."""

    @property
    def own_s(self) -> float:
        """Wall seconds without the time that other programs had the core; sleeping counts."""
        return max(1e-9, self.wall_s - self.queued_s)

    @property
    def steps_per_s(self) -> float:
        """Transitions per second."""
        return self.steps / max(self.wall_s, 1e-9)

    @property
    def own_steps_per_s(self) -> float:
        """Transitions per second of `own_s`."""
        return self.steps / self.own_s

    @property
    def steps_per_cpu_s(self) -> float:
        """Transitions per CPU second of the process; children are not counted."""
        return self.steps / max(self.cpu_s, 1e-9)


@dataclass(frozen=True, slots=True)
class Comparison:
    """Speed of the second loop over the first."""

    gain: Gain
    cpu_gain: Gain
    pairs: int
    before: float
    """Median transitions per second of the first loop."""
    after: float
    """Median transitions per second of the second loop."""


def take_turn(loop: Loop, least_s: float = TURN_S) -> Turn:
    """Iterate for at least `least_s`, up to the end of a round of updates.

    Loops that alternate between collecting and updating are compared by whole rounds: a turn that
    ends between two rounds of updates would include collection without its updates.
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
    speed_before: float | None = None,
    stops: Callable[[], bool] = lambda: False,
) -> Comparison | None:
    """Speed of `after` over `before`; None if there was no time for two pairs.

    The order alternates from pair to pair, so that drift of the machine affects both. Stops early
    once the interval is narrow and clearly on one side of 1.

    Args:
        before: The unchanged loop.
        after: The loop with one change.
        seconds: Time limit for both loops together.
        by_wall: Include the time that other programs had the core. Needed where threads are
            compared, because their siblings are among those others; elsewhere it is only noise.
        speed_before: Steps per second before the first turn, for changes that may persist after
            their turns because both sides are one loop. A gain over that speed counts as well.
        stops: Called after every pair; True ends the comparison.
    """
    end = perf_counter() + seconds
    sides: tuple[list[Turn], list[Turn]] = ([], [])
    take_turn(before, 0.0)
    baseline = None if speed_before is None else _Baseline(before, speed_before)
    take_turn(after, 0.0)

    def changed() -> float:
        rate = _timed_turn(sides[1], after, by_wall=by_wall)
        if baseline is not None:
            baseline.record(rate)
        return rate

    comparison = PairedComparison(
        old=lambda: _timed_turn(sides[0], before, by_wall=by_wall), new=changed
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
        gain=_gain(found if baseline is None else baseline.or_lasting(found)),
        cpu_gain=_gain(estimate([log(b.steps_per_cpu_s / a.steps_per_cpu_s) for a, b in pairs])),
        pairs=len(sides[0]),
        before=float(np.median([turn.steps_per_s for turn in sides[0]])),
        after=float(np.median([turn.steps_per_s for turn in sides[1]])),
    )


class _Baseline:
    """Speed of a loop before a change was first made, as a baseline for its later speed.

    There are no pairs here, and the machine may have been slower then. So a fixed piece of work is
    timed beside every turn. A gain counts only if it holds with and without this correction, and
    over the observed speed as well.

    Args:
        loop: The loop, not changed yet.
        observed_speed: Steps per second during the observation.
    """

    def __init__(self, loop: Loop, observed_speed: float) -> None:
        self._observed_speed = observed_speed
        self._then: list[tuple[float, float]] = []
        self._now: list[tuple[float, float]] = []
        for _ in range(FEWEST):
            self._then.append((take_turn(loop).own_steps_per_s, _reference_rate()))

    def record(self, rate: float) -> None:
        """Record the speed of a turn with the change."""
        self._now.append((rate, _reference_rate()))

    def or_lasting(self, found: Estimate) -> Estimate:
        """The estimate from pairs, or the gain since the change if that is clearly larger."""
        plain = _over([rate for rate, _ in self._now], [rate for rate, _ in self._then])
        fair = _over([r / p for r, p in self._now], [r / p for r, p in self._then])
        least = min(plain, fair, key=lambda one: one.ratio)
        since_observed = float(np.median([rate for rate, _ in self._now])) / self._observed_speed
        lasts = least.low > max(found.high, LASTING) and since_observed > LASTING
        return least if lasts else found


def _over(now: list[float], then: list[float]) -> Estimate:
    """Ratio of two sets of rates without pairing."""
    new, old = (estimate([log(rate) for rate in rates]) for rates in (now, then))
    ratio = new.ratio / old.ratio
    width = exp(hypot(log(new.high / new.ratio), log(old.high / old.ratio)))
    return Estimate(ratio, ratio / width, ratio * width, new.pairs)


def _reference_rate() -> float:
    """Repetitions per second of a fixed piece of work in Python and NumPy."""
    numbers = np.linspace(1.0, 2.0, 4096)
    begin = thread_time()
    for _ in range(100):
        np.sqrt(numbers).sum()
    return 1 / max(1e-9, thread_time() - begin)


def _timed_turn(turns: list[Turn], loop: Loop, *, by_wall: bool) -> float:
    """Take one more turn and return its speed."""
    turns.append(take_turn(loop))
    return turns[-1].steps_per_s if by_wall else turns[-1].own_steps_per_s


def _is_clear(comparison: PairedComparison) -> bool:
    """Whether more pairs would not change the answer."""
    now = comparison.estimate(EARLY_CONFIDENCE)
    decided = now.is_clear or (now.low > 1 - NARROW and now.high < 1 + NARROW)
    return decided and now.high - now.low < 4 * NARROW * now.ratio


def _gain(found: Estimate) -> Gain:
    return Gain(found.ratio, found.low, found.high)
