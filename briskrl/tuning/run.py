"""Tuning from start to proof: search, then a head-to-head of fresh slices that decides."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import closing
from dataclasses import dataclass
from time import perf_counter
from typing import Protocol

from briskrl.bench.compare import Estimate, PairedComparison
from briskrl.core.cpu import usable_cores
from briskrl.core.errors import BriskError, ConfigError
from briskrl.envs.external import GIVEN
from briskrl.training.config import TrainConfig
from briskrl.training.resolve import complete
from briskrl.training.storage.run_metadata import timestamp
from briskrl.training.trainer import Trainer
from briskrl.tuning.cache import Remembered, recall, remember, target_key
from briskrl.tuning.config import TuneConfig
from briskrl.tuning.search import Findings, Progress, Search
from briskrl.tuning.space import Point, Space
from briskrl.tuning.trials import TrialError, Trials, for_trial

SHORTEST_SLICE_S, LONGEST_SLICE_S = 0.05, 0.25
SLICES = 500
"""Slices that the budget would be good for, if it was spent on nothing else."""
SCAN_SHARE, RACE_SHARE = 0.45, 0.3
"""Of the budget; what is left is for the proof."""
FEWEST_PROOF_PAIRS, MOST_PROOF_PAIRS = 12, 80
PROOF_PRECISION = 0.01
SHORT_PROOF_S = 5.0
"""After an interrupt."""


@dataclass(frozen=True, slots=True)
class Outcome:
    """What tuning came to."""

    config: TrainConfig
    """What to train with: tuned if that is proven to be faster, else as it was."""
    start: Point
    best: Point
    """The fastest that was found, proven or not; the start if nothing seemed faster."""
    gain: Estimate | None
    """How many times as fast as the start it was in the proof; None if there was no proof."""
    start_rate: float | None
    """Steps per second of the start and of the best in the proof, medians."""
    best_rate: float | None
    findings: Findings
    points: int
    """Size of the space."""
    remembered: str | None
    """When the best was found before, if it was."""
    interrupted: bool
    seconds: float

    @property
    def is_proven(self) -> bool:
        """Whether the best is faster than the start beyond chance."""
        return self.gain is not None and self.gain.is_faster


def tune(
    config: TrainConfig,
    settings: TuneConfig | None = None,
    *,
    stop: Callable[[], bool] = lambda: False,
    tell: Callable[[Progress], None] = lambda progress: None,
) -> Outcome:
    """The fastest settings found for a config within a budget, and the proof.

    Args:
        config: Where to start.
        settings: How to tune.
        stop: Whether to come to an end; asked before every slice.
        tell: Told of progress.

    Raises:
        BriskError: The start itself cannot be trained.
    """
    config, settings = complete(config), settings or TuneConfig()
    space = find_space(config, settings)
    slice_s = min(LONGEST_SLICE_S, max(SHORTEST_SLICE_S, settings.budget / SLICES))
    with closing(
        Trials(space, settings.objective, slice_s, patience_s=max(30.0, settings.budget / 4))
    ) as trials:
        return Tuning(space, settings, trials, stop, tell).run()


class Rates(Protocol):
    """Measures slices of points, as Trials does."""

    compiling_s: float
    """Seconds that are not charged."""

    def rate(self, point: Point, floor: float = 0.0) -> float:
        """Steps per second of one slice; see Trials.rate."""
        ...


class Tuning:
    """One go at a target.

    Args:
        space: What may be tried.
        settings: How to tune.
        trials: Measures slices.
        stop: See `tune`.
        tell: See `tune`.
    """

    def __init__(
        self,
        space: Space,
        settings: TuneConfig,
        trials: Rates,
        stop: Callable[[], bool],
        tell: Callable[[Progress], None],
    ) -> None:
        self._space = space
        self._settings = settings
        self._trials = trials
        self._stop = stop
        self._tell = tell
        self._points = space.points
        self._begin = perf_counter()
        self._key = target_key(space.config, settings.objective)
        self._search = Search(
            self._points,
            trials.rate,
            distance=space.distance,
            seed=space.config.seed,
            stop=stop,
            tell=tell,
            now=self._now,
        )

    def run(self) -> Outcome:
        """Search unless a remembered winner still wins, then prove; see `tune`."""
        best, comparison, known = self._space.start, None, None
        interrupted = False
        try:
            self._require_start()
            known = None if self._settings.fresh else recall(self._key)
            if known is not None:
                best, comparison = self._try_known(known)
            if comparison is None:
                known = None
                best = self._find()
                best, comparison = self._prove_any(best)
        except KeyboardInterrupt:
            interrupted = True
            best = self._search.leader if comparison is None else best
        return self._outcome(best, comparison, known, interrupted or self._stop())

    def _require_start(self) -> None:
        try:
            self._trials.rate(self._space.start)
        except TrialError as error:
            cause = error.__cause__
            if isinstance(cause, BriskError):
                raise cause from None
            raise ConfigError(f"This cannot be trained as it is. {error}") from cause

    def _find(self) -> Point:
        budget = self._settings.budget
        left = budget - self._now()
        shares = SCAN_SHARE * left, RACE_SHARE * left
        return self._search.run(*shares, total_s=budget)

    def _try_known(self, known: Remembered) -> tuple[Point, PairedComparison | None]:
        """The remembered winner and its proof; no proof if it does not win here any more."""
        point = next((p for p in self._points if p.as_dict() == known.values), self._space.start)
        if point == self._space.start:
            return point, None
        try:
            comparison = self._prove(point, RACE_SHARE * self._settings.budget)
        except TrialError:
            return self._space.start, None
        return (point, comparison) if comparison.estimate().is_faster else (self._space.start, None)

    def _prove_any(self, best: Point) -> tuple[Point, PairedComparison | None]:
        """The best point that is faster than the start, tried in order, with its comparison."""
        order = [best, *(point for point in self._search.findings.order if point != best)]
        for point in order:
            if point == self._space.start:
                break
            left = self._settings.budget - self._now()
            seconds = SHORT_PROOF_S if self._stop() else max(SHORT_PROOF_S, left)
            try:
                return point, self._prove(point, seconds)
            except TrialError as error:
                self._search.findings.skipped[point] = str(error)
        return self._space.start, None

    def _prove(self, point: Point, seconds: float) -> PairedComparison:
        """Slices of start and point in turns, none of which the search has seen."""
        stopped = self._stop()
        comparison = PairedComparison(
            old=lambda: self._trials.rate(self._space.start),
            new=lambda: self._trials.rate(point),
        )
        limit = self._now() + seconds

        def leave() -> bool:
            self._report(point, comparison)
            # A proof that began after an interrupt is short anyway.
            return self._now() >= limit or (self._stop() and not stopped)

        comparison.run(
            turns=MOST_PROOF_PAIRS,
            min_turns=FEWEST_PROOF_PAIRS,
            precision=PROOF_PRECISION,
            stop=leave,
        )
        return comparison

    def _report(self, point: Point, comparison: PairedComparison) -> None:
        self._tell(
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
        known: Remembered | None,
        interrupted: bool,
    ) -> Outcome:
        gain = comparison.estimate() if comparison is not None and comparison.turns else None
        proven = gain is not None and gain.is_faster
        if gain is not None and proven and known is None:
            remember(
                self._key,
                Remembered(
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
        """Seconds of the budget that are spent; compiling happens once and is not charged."""
        return perf_counter() - self._begin - self._trials.compiling_s


def find_space(config: TrainConfig, settings: TuneConfig) -> Space:
    """The space of a complete config on this machine.

    Raises:
        BriskError: It cannot be trained.
    """
    if config.env == GIVEN:
        raise ConfigError("Environments that Python code passes in cannot be tuned by a command.")
    with closing(Trainer(for_trial(config))) as trainer:
        fused = trainer.algo.engines.refusal is None
    return Space(config, settings, cores=usable_cores(), fused=fused)
