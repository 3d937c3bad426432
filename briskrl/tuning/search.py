"""The search for the fastest point: a scan of the space, then fewer and fewer in longer races.

The scan measures points once each, with slices of the start in between that tell how fast the
machine is at the moment. It begins with the changes of one setting; then a model of what was seen,
the effects of settings and of pairs of them, says which of the rest look best, and now and then a
random one is taken. The best of the scan race in rounds in which everybody has a slice, and the
slower half leaves after a race (successive halving, Jamieson and Talwalkar 2016). Of those that end
about equally fast, the one that changes least is taken.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from itertools import combinations
from math import exp, log
from time import perf_counter
from typing import Protocol

import numpy as np

from briskrl.bench.compare import estimate
from briskrl.tuning.space import Point
from briskrl.tuning.trials import TrialError

REFERENCE_EVERY = 3
"""Points of the scan between two slices of the start."""
EXPLORE = 4
"""One point of the scan in so many is a random one."""
HOPELESS = 0.3
"""Points that do not reach this share of the best rate are not measured to the end."""
RACERS, FINALISTS = 8, 4
"""Points in the first and in the last race."""
FEWEST_ROUNDS, MOST_ROUNDS = 3, 16
"""Rounds of a race."""
TIE = 0.03
"""Points that are this much slower than the best, as a share, count as equally fast."""
NEAR = 1.3
"""Gains of the scan, of single slices, that may be chance."""
RIDGE = 0.05
"""How reluctantly the model believes in an effect that was seen only a few times."""
PAIR_WEIGHT = 0.5
"""How much less it believes in effects of pairs of settings."""
BOTTOM = 0.05
"""Share of the best gain below which slow is slow: how slow says nothing about other settings."""


class Measure(Protocol):
    """One slice of a point: its rate; raises TrialError if it cannot be trained."""

    def __call__(self, point: Point, floor: float = 0.0) -> float:
        """Steps per second; where they are below `floor`, only roughly."""
        ...


@dataclass(frozen=True, slots=True)
class Progress:
    """Where a search is."""

    stage: str
    """scan, race or proof."""
    fraction: float
    """Of the time that the whole may take."""
    best: Point
    gain: float
    """How many times as fast as the start it seems to be."""
    tried: int
    points: int


@dataclass(slots=True)
class Findings:
    """What a search has seen so far."""

    gains: dict[Point, float] = field(default_factory=dict)
    """How many times as fast as the start each point was in the scan."""
    rates: dict[Point, float] = field(default_factory=dict)
    """The last slice of each."""
    skipped: dict[Point, str] = field(default_factory=dict)
    """Points that cannot be trained, and why."""
    order: list[Point] = field(default_factory=list)
    """Those that can, the fastest first; a race's order stands above the scan's."""


class Search:
    """Finds a fast point within a given time.

    Args:
        points: All points; the first one is the start, which must work.
        measure: Measures one slice.
        distance: How much a point changes; decides between points that are equally fast.
        seed: Of the order in which points are tried.
        stop: Asked before every slice whether to leave it at what is known.
        tell: Told of progress.
        now: The clock that the time is measured by.
    """

    def __init__(
        self,
        points: Sequence[Point],
        measure: Measure,
        *,
        distance: Callable[[Point], float],
        seed: int = 0,
        stop: Callable[[], bool] = lambda: False,
        tell: Callable[[Progress], None] = lambda progress: None,
        now: Callable[[], float] = perf_counter,
    ) -> None:
        self._points = list(points)
        self._start = self._points[0]
        self._measure = measure
        self._distance = distance
        self._rng = np.random.default_rng(seed)
        self._stop = stop
        self._tell = tell
        self._now = now
        self._features = _features(self._points)
        self.findings = Findings()

    def run(self, scan_s: float, race_s: float, total_s: float) -> Point:
        """The point to go for; the start if nothing else can be trained or is faster.

        Args:
            scan_s: Seconds for the scan.
            race_s: Seconds for all races.
            total_s: Seconds that what is told of progress is a fraction of.
        """
        self._begin, self._total_s = self._now(), total_s
        self._scan(self._begin + scan_s)
        racers = self._racers()
        races = 2 if len(racers) > FINALISTS else 1
        while len(racers) > 1 and not self._stop():
            scores = self._race(racers, self._now() + race_s / races)
            is_last = len(racers) <= FINALISTS
            racers = sorted(scores, key=lambda racer: -scores[racer])
            rest = [point for point in self._ranking() if point not in racers]
            self.findings.order = racers + rest
            if is_last:
                return self._simplest(racers, scores)
            racers = self._without_slower_half(racers)
        return self.leader

    def _racers(self) -> list[Point]:
        """The best of the scan, and the start if it may be as fast: near ties end with it."""
        ranking, gains = self._ranking(), self.findings.gains
        racers = ranking[:RACERS]
        if self._start not in racers and gains[racers[0]] < NEAR:
            racers[-1] = self._start
        return racers

    def _without_slower_half(self, racers: list[Point]) -> list[Point]:
        """The faster ones; the start stays, as near ties are to end with it."""
        left = racers[: max(FINALISTS, (len(racers) + 1) // 2)]
        if self._start in racers and self._start not in left:
            left[-1] = self._start
        return left

    @property
    def leader(self) -> Point:
        """The fastest so far; the start before anything was measured."""
        return self._ranking()[0]

    def _scan(self, deadline: float) -> None:
        waiting = set(self._points[1:])
        before = self._reference()
        while waiting and self._goes_on(deadline):
            group: dict[Point, float] = {}
            while waiting and len(group) < REFERENCE_EVERY and self._goes_on(deadline):
                point = self._next(waiting)
                waiting.discard(point)
                rate = self._try(point)
                if rate is not None:
                    group[point] = log(rate)
            if not group:
                continue
            after = self._reference()
            for point, value in group.items():
                self.findings.gains[point] = exp(value - (before + after) / 2)
            before = after
            self._report("scan")

    def _reference(self) -> float:
        """The logarithm of the start's rate at this moment."""
        rate = self._measure(self._start)
        self.findings.gains.setdefault(self._start, 1.0)
        self.findings.rates[self._start] = rate
        return log(rate)

    def _try(self, point: Point) -> float | None:
        """One slice of a point; None if it cannot be trained, which is noted."""
        floor = HOPELESS * max(self.findings.rates.values(), default=0.0)
        try:
            rate = self._measure(point, floor)
        except TrialError as error:
            self.findings.skipped[point] = str(error)
            self.findings.gains.pop(point, None)
            return None
        self.findings.rates[point] = rate
        return rate

    def _next(self, waiting: set[Point]) -> Point:
        """A change of one setting while there are any; then what the model likes, or a random one.

        Random points come first among equals, so that no corner of the space is favoured.
        """
        listed = [point for point in self._points if point in waiting]
        listed = [listed[index] for index in self._rng.permutation(len(listed))]
        single = [point for point in listed if len(point.differs_in(self._start)) == 1]
        if single:
            return single[0]
        if self._rng.integers(EXPLORE) == 0:
            return listed[0]
        expected = self._expect(listed)
        return listed[int(np.argmax(expected))]

    def _expect(self, points: Sequence[Point]) -> np.ndarray[tuple[int], np.dtype[np.float64]]:
        """Logarithms of gains (P,) as the model of all that was seen expects them."""
        gains = self.findings.gains
        seen, worst = list(gains), BOTTOM * max(gains.values())
        x = np.stack([self._features[point] for point in seen])
        y = np.array([log(max(gains[point], worst)) for point in seen])
        weights = np.linalg.solve(x.T @ x + RIDGE * np.eye(x.shape[1]), x.T @ y)
        found: np.ndarray[tuple[int], np.dtype[np.float64]] = (
            np.stack([self._features[point] for point in points]) @ weights
        )
        return found

    def _race(self, racers: Sequence[Point], deadline: float) -> dict[Point, float]:
        """Logarithms of rates over those of all others of a round, of those who finish."""
        racing = list(racers)
        logs: dict[Point, list[float]] = {racer: [] for racer in racing}
        rounds = 0
        while rounds < MOST_ROUNDS and len(racing) > 1 and not self._stop():
            if rounds >= FEWEST_ROUNDS and self._now() >= deadline:
                break
            rates: dict[Point, float] = {}
            for index in self._rng.permutation(len(racing)):
                rate = self._try(racing[index])
                if rate is not None:
                    rates[racing[index]] = log(rate)
            racing = [racer for racer in racing if racer in rates]
            middle = float(np.mean(list(rates.values()))) if rates else 0.0
            for racer in racing:
                logs[racer].append(rates[racer] - middle)
            rounds += 1
            self._report("race")
        return {racer: log(estimate(logs[racer]).ratio) for racer in racing}

    def _simplest(self, racers: Sequence[Point], scores: dict[Point, float]) -> Point:
        """Of those who are about as fast as the first, the one that changes least."""
        if not racers:
            return self.leader
        close = [racer for racer in racers if scores[racer] >= scores[racers[0]] - TIE]
        return min(close, key=self._distance)

    def _ranking(self) -> list[Point]:
        """All points that can be trained, the fastest first."""
        gains = self.findings.gains
        if not self.findings.order:
            self.findings.order = sorted(gains, key=lambda point: -gains[point])
        order = [point for point in self.findings.order if point not in self.findings.skipped]
        return order or [self._start]

    def _goes_on(self, deadline: float) -> bool:
        return self._now() < deadline and not self._stop()

    def _report(self, stage: str) -> None:
        gains = self.findings.gains
        best = self.findings.order[0] if self.findings.order else max(gains, key=gains.__getitem__)
        self._tell(
            Progress(
                stage=stage,
                fraction=min(1.0, (self._now() - self._begin) / self._total_s),
                best=best,
                gain=gains.get(best, 1.0),
                tried=len(gains) + len(self.findings.skipped),
                points=len(self._points),
            )
        )


def _features(
    points: Sequence[Point],
) -> dict[Point, np.ndarray[tuple[int], np.dtype[np.float64]]]:
    """Every point as a row: a place for all, one per setting and one per pair of settings."""
    places: dict[object, int] = {}
    for point in points:
        for part in (*point.values, *combinations(point.values, 2)):
            places.setdefault(part, len(places) + 1)
    rows = {}
    for point in points:
        row = np.zeros(len(places) + 1)
        row[[0, *(places[value] for value in point.values)]] = 1
        row[[places[pair] for pair in combinations(point.values, 2)]] = PAIR_WEIGHT
        rows[point] = row
    return rows
