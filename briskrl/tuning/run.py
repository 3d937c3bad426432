"""Tuning: search for fast settings, then compare the best with the start in new slices."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import closing
from dataclasses import dataclass
from time import perf_counter
from typing import Protocol

from briskrl.bench.compare import Estimate, PairedComparison
from briskrl.bench.steady_config import steady_config
from briskrl.core.cpu import usable_cores
from briskrl.core.errors import BriskError, ConfigError
from briskrl.core.exit_watch import nothing_to_lose
from briskrl.envs.external import GIVEN
from briskrl.training.config import TrainConfig
from briskrl.training.resolve import complete
from briskrl.training.storage.run_dir import timestamp
from briskrl.training.trainer import Trainer
from briskrl.tuning.cache import CachedResult, load, save, target_key
from briskrl.tuning.config import TuneConfig
from briskrl.tuning.search import Findings, Progress, Search
from briskrl.tuning.space import Point, Space
from briskrl.tuning.trials import TrialError, Trials

SHORTEST_SLICE_S, LONGEST_SLICE_S = 0.05, 0.25
SLICES = 500
"""Slices that fit into the budget, which sets their length."""
SCAN_SHARE, RACE_SHARE = 0.45, 0.3
"""Shares of the budget; the rest is for the final comparison."""
FEWEST_PROOF_PAIRS, MOST_PROOF_PAIRS = 12, 80
PROOF_PRECISION = 0.01
SHORT_PROOF_S = 5.0
"""Seconds of the final comparison after an interrupt."""


@dataclass(frozen=True, slots=True)
class Outcome:
    """The result of tuning."""

    config: TrainConfig
    """The tuned config if it is proven to be faster, otherwise the original one."""
    start: Point
    best: Point
    """The fastest point found, proven or not; the start if nothing seemed faster."""
    gain: Estimate | None
    """Its speed over the start in the final comparison; None if there was none."""
    start_rate: float | None
    """Median steps per second of the start in the final comparison."""
    best_rate: float | None
    """Median steps per second of the best point in the final comparison."""
    findings: Findings
    points: int
    """Number of points in the space."""
    remembered: str | None
    """Time stamp of the cached result that was used; None if there was a search."""
    interrupted: bool
    seconds: float

    @property
    def is_proven(self) -> bool:
        """Whether the best point is significantly faster than the start."""
        return self.gain is not None and self.gain.is_faster


def tune(
    config: TrainConfig,
    settings: TuneConfig | None = None,
    *,
    stop: Callable[[], bool] = lambda: False,
    progress: Callable[[Progress], None] = lambda state: None,
) -> Outcome:
    """Find the fastest settings for a config within a time budget.

    Args:
        config: The start.
        settings: Budget, objective, and what to tune; the defaults of `TuneConfig` if omitted.
        stop: Called before every slice; True ends the search.
        progress: Called with the progress of the search.

    Raises:
        BriskError: The start cannot be trained.
    """
    config, settings = complete(config), settings or TuneConfig()
    space = find_space(config, settings)
    slice_s = min(LONGEST_SLICE_S, max(SHORTEST_SLICE_S, settings.budget / SLICES))
    with closing(
        Trials(space, settings.objective, slice_s, patience_s=max(30.0, settings.budget / 4))
    ) as trials:
        return Tuning(space, settings, trials, stop, progress).run()


class Rates(Protocol):
    """Measures slices of training; implemented by `Trials`."""

    compiling_s: float
    """Seconds of compilation so far, which do not count against the budget."""

    def rate(self, point: Point, floor: float = 0.0) -> float:
        """Steps per second of one slice; see Trials.rate."""
        ...


class Tuning:
    """One run of tuning.

    Args:
        space: The points to search.
        settings: Budget, objective, and what to tune.
        trials: Measures slices.
        stop: See `tune`.
        progress: See `tune`.
    """

    def __init__(
        self,
        space: Space,
        settings: TuneConfig,
        trials: Rates,
        stop: Callable[[], bool],
        progress: Callable[[Progress], None],
    ) -> None:
        self._space = space
        self._settings = settings
        self._trials = trials
        self._stop = stop
        self._progress = progress
        self._points = space.points
        self._begin = perf_counter()
        self._key = target_key(space.config, settings.objective)
        self._search = Search(
            self._points,
            trials.rate,
            distance=space.distance,
            seed=space.config.seed,
            stop=stop,
            progress=progress,
            now=self._now,
        )

    def run(self) -> Outcome:
        """Search unless a cached result still wins, then compare with the start; see `tune`."""
        best, comparison, known = self._space.start, None, None
        interrupted = False
        try:
            self._check_start()
            known = None if self._settings.fresh else load(self._key)
            if known is not None:
                best, comparison = self._try_cached(known)
            if comparison is None:
                known = None
                best = self._run_search()
                best, comparison = self._verify_best(best)
        except KeyboardInterrupt:
            interrupted = True
            best = self._search.leader if comparison is None else best
        return self._outcome(best, comparison, known, interrupted or self._stop())

    def _check_start(self) -> None:
        try:
            with nothing_to_lose():
                self._trials.rate(self._space.start)
        except TrialError as error:
            cause = error.__cause__
            if isinstance(cause, BriskError):
                raise cause from None
            raise ConfigError(f"This config cannot be trained. {error}") from cause

    def _run_search(self) -> Point:
        budget = self._settings.budget
        left = budget - self._now()
        shares = SCAN_SHARE * left, RACE_SHARE * left
        return self._search.run(*shares, total_s=budget)

    def _try_cached(self, known: CachedResult) -> tuple[Point, PairedComparison | None]:
        """The cached point and its comparison; None instead if it is not faster any more."""
        point = next((p for p in self._points if p.as_dict() == known.values), self._space.start)
        if point == self._space.start:
            return point, None
        try:
            comparison = self._compare(point, RACE_SHARE * self._settings.budget)
        except TrialError:
            return self._space.start, None
        return (point, comparison) if comparison.estimate().is_faster else (self._space.start, None)

    def _verify_best(self, best: Point) -> tuple[Point, PairedComparison | None]:
        """The best point that can be trained, with its comparison with the start."""
        order = [best, *(point for point in self._search.findings.order if point != best)]
        for point in order:
            if point == self._space.start:
                break
            left = self._settings.budget - self._now()
            seconds = SHORT_PROOF_S if self._stop() else max(SHORT_PROOF_S, left)
            try:
                return point, self._compare(point, seconds)
            except TrialError as error:
                self._search.findings.skipped[point] = str(error)
        return self._space.start, None

    def _compare(self, point: Point, seconds: float) -> PairedComparison:
        """Compare a point with the start in new slices, taken in turns."""
        stopped = self._stop()
        comparison = PairedComparison(
            old=lambda: self._trials.rate(self._space.start),
            new=lambda: self._trials.rate(point),
        )
        limit = self._now() + seconds

        def leave() -> bool:
            self._report(point, comparison)
            # A comparison that started after an interrupt is short already.
            return self._now() >= limit or (self._stop() and not stopped)

        comparison.run(
            turns=MOST_PROOF_PAIRS,
            min_turns=FEWEST_PROOF_PAIRS,
            precision=PROOF_PRECISION,
            stop=leave,
        )
        return comparison

    def _report(self, point: Point, comparison: PairedComparison) -> None:
        self._progress(
            Progress(
                stage="proof",
                fraction=min(1.0, self._now() / self._settings.budget),
                best=point,
                gain=comparison.estimate().ratio,
                tried=len(self._search.findings.gains),
                points=len(self._points),
            )
        )

    def _outcome(
        self,
        best: Point,
        comparison: PairedComparison | None,
        known: CachedResult | None,
        interrupted: bool,
    ) -> Outcome:
        gain = comparison.estimate() if comparison is not None and comparison.turns else None
        proven = gain is not None and gain.is_faster
        if gain is not None and proven and known is None:
            save(
                self._key,
                CachedResult(
                    best.as_dict(), gain.ratio, gain.low, gain.high, gain.pairs, timestamp()
                ),
            )
        return Outcome(
            config=self._space.apply(best if proven else self._space.start),
            start=self._space.start,
            best=best,
            gain=gain,
            start_rate=comparison.median("old") if comparison is not None and gain else None,
            best_rate=comparison.median("new") if comparison is not None and gain else None,
            findings=self._search.findings,
            points=len(self._points),
            remembered=None if known is None else known.measured_at,
            interrupted=interrupted,
            seconds=perf_counter() - self._begin,
        )

    def _now(self) -> float:
        """Seconds used of the budget, without compilation."""
        return perf_counter() - self._begin - self._trials.compiling_s


def find_space(config: TrainConfig, settings: TuneConfig) -> Space:
    """The search space of a complete config on this machine.

    Raises:
        BriskError: It cannot be trained.
    """
    if config.env == GIVEN:
        raise ConfigError("Environment objects passed from Python cannot be tuned.")
    with closing(Trainer(steady_config(config))) as trainer:
        fused = trainer.algo.engines.refusal is None
    return Space(config, settings, cores=usable_cores(), fused=fused)
