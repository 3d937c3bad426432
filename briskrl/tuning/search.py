"""Search for the fastest point: a scan of the space, then races between the best points.

The scan measures points once each, with slices of the start in between as a reference for the
current speed of the machine. It starts with points that change one setting. Then a linear model of
the results, with effects of settings and pairs of settings, predicts the best of the rest; some
points are random. The best of the scan race in rounds of one slice each, and the slower half is
dropped after a race (successive halving, Jamieson and Talwalkar 2016). Among points that are about
equally fast, the one with the fewest changes wins.
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
"""One in this many points of the scan is chosen at random."""
HOPELESS = 0.3
"""Share of the best rate below which a slice is cut short."""
RACERS, FINALISTS = 8, 4
"""Points in the first and in the last race."""
FEWEST_ROUNDS, MOST_ROUNDS = 3, 16
"""Rounds of a race."""
TIE = 0.03
"""Relative difference below which points count as equally fast."""
NEAR = 1.3
"""Gain of a single slice in the scan that may be noise."""
RIDGE = 0.05
"""Ridge penalty of the model."""
PAIR_WEIGHT = 0.5
"""Scale of the features of pairs of settings, which are penalized more."""
BOTTOM = 0.05
"""Share of the best gain at which slow points are clipped for the model."""


class Measure(Protocol):
    """Measures one slice of a point; raises TrialError if it cannot be trained."""

    def __call__(self, point: Point, floor: float = 0.0) -> float:
        """Steps per second; approximate if below `floor`."""
        ...


@dataclass(frozen=True, slots=True)
class Progress:
    """Progress of a search."""

    stage: str
    """scan, race or proof."""
    fraction: float
    """Share of the time budget."""
    best: Point
    gain: float
    """Estimated speed of `best` over the start."""
    tried: int
    points: int


@dataclass(slots=True)
class Findings:
    """Results of a search so far."""

    gains: dict[Point, float] = field(default_factory=dict)
    """Speed of each point over the start in the scan."""
    rates: dict[Point, float] = field(default_factory=dict)
    """Rate of the last slice of each point."""
    skipped: dict[Point, str] = field(default_factory=dict)
    """Points that cannot be trained, and why."""
    order: list[Point] = field(default_factory=list)
    """Points that can be trained, the fastest first; races take precedence over the scan."""


class Search:
    """Finds a fast point within a given time.

    Args:
        points: All points; the first one is the start, which must be trainable.
        measure: Measures one slice.
        distance: Amount of change of a point, to choose between equally fast points.
        seed: Seed of the order of the points.
        stop: Called before every slice; True ends the search.
        progress: Called with the progress.
        now: Clock for time limits.
    """

    def __init__(
        self,
        points: Sequence[Point],
        measure: Measure,
        *,
        distance: Callable[[Point], float],
        seed: int = 0,
        stop: Callable[[], bool] = lambda: False,
        progress: Callable[[Progress], None] = lambda state: None,
        now: Callable[[], float] = perf_counter,
    ) -> None:
        self._points = list(points)
        self._start = self._points[0]
        self._measure = measure
        self._distance = distance
        self._rng = np.random.default_rng(seed)
        self._stop = stop
        self._progress = progress
        self._now = now
        self._features = _features(self._points)
        self.findings = Findings()

    def run(self, scan_s: float, race_s: float, total_s: float) -> Point:
        """The best point; the start if nothing else can be trained or is faster.

        Args:
            scan_s: Seconds for the scan.
            race_s: Seconds for all races.
            total_s: Total budget, for the fraction in `Progress`.
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
                return self._least_changed(racers, scores)
            racers = self._without_slower_half(racers)
        return self.leader

    def _racers(self) -> list[Point]:
        """The best of the scan, and the start unless they are clearly faster."""
        ranking, gains = self._ranking(), self.findings.gains
        racers = ranking[:RACERS]
        if self._start not in racers and gains[racers[0]] < NEAR:
            racers[-1] = self._start
        return racers

    def _without_slower_half(self, racers: list[Point]) -> list[Point]:
        """The faster half, and the start if it takes part."""
        left = racers[: max(FINALISTS, (len(racers) + 1) // 2)]
        if self._start in racers and self._start not in left:
            left[-1] = self._start
        return left

    @property
    def leader(self) -> Point:
        """The fastest point so far; the start before any measurement."""
        return self._ranking()[0]

    def _scan(self, deadline: float) -> None:
        waiting = set(self._points[1:])
        before = self._reference()
        while waiting and self._continues(deadline):
            group: dict[Point, float] = {}
            while waiting and len(group) < REFERENCE_EVERY and self._continues(deadline):
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
        """Logarithm of the current rate of the start."""
        rate = self._measure(self._start)
        self.findings.gains.setdefault(self._start, 1.0)
        self.findings.rates[self._start] = rate
        return log(rate)

    def _try(self, point: Point) -> float | None:
        """Measure one slice; returns None and records the reason if it cannot be trained."""
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
        """The next point: single changes first, then the model's prediction or a random one.

        The order is shuffled, so that ties are broken at random.
        """
        listed = [point for point in self._points if point in waiting]
        listed = [listed[index] for index in self._rng.permutation(len(listed))]
        single = [point for point in listed if len(point.changed_axes(self._start)) == 1]
        if single:
            return single[0]
        if self._rng.integers(EXPLORE) == 0:
            return listed[0]
        expected = self._predict(listed)
        return listed[int(np.argmax(expected))]

    def _predict(self, points: Sequence[Point]) -> np.ndarray[tuple[int], np.dtype[np.float64]]:
        """Logarithms of gains (P,) predicted by the model from all results."""
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
        """Mean logarithm of each rate over the mean of its round, for points that never failed."""
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

    def _least_changed(self, racers: Sequence[Point], scores: dict[Point, float]) -> Point:
        """Among the points about as fast as the first, the one with the smallest distance."""
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

    def _continues(self, deadline: float) -> bool:
        return self._now() < deadline and not self._stop()

    def _report(self, stage: str) -> None:
        gains = self.findings.gains
        best = self.findings.order[0] if self.findings.order else max(gains, key=gains.__getitem__)
        self._progress(
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
    """Feature row of every point: a constant, one per setting and one per pair of settings."""
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
