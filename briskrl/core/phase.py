"""Measure the time of the phases of a training loop; cheap enough to be always on."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from enum import IntEnum
from time import perf_counter_ns
from types import TracebackType

KEPT = 512
"""Newest calls of a phase over which percentiles are taken; a power of two."""


class Phase(IntEnum):
    """The phases of the loop; OTHER is the time that no other phase covers.

    AVERAGE is what replicas spend on averaging, including the time they wait for each other.
    """

    ACT = 0
    ENV = 1
    STORE = 2
    SAMPLE = 3
    UPDATE = 4
    EVAL = 5
    LOG = 6
    SAVE = 7
    WAIT = 8
    OTHER = 9
    AVERAGE = 10


@dataclass(frozen=True, slots=True)
class PhaseStats:
    """Time of one phase since the last reset."""

    seconds: float
    calls: int
    p50_us: float
    """Median of the newest calls, in microseconds."""
    p95_us: float
    """95th percentile of the newest calls, in microseconds."""


class _Span:
    """A reusable context manager that adds the time spent inside it to a total."""

    __slots__ = ("_begin", "clock", "count", "recent", "total_ns")

    def __init__(self, clock: Callable[[], int]) -> None:
        self.clock = clock
        self.recent = [0] * KEPT
        self.total_ns = 0
        self.count = 0
        self._begin = 0

    def __enter__(self) -> None:
        self._begin = self.clock()

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.add(self.clock() - self._begin)

    def add(self, ns: int) -> None:
        """Add a call that was timed elsewhere."""
        self.total_ns += ns
        self.recent[self.count & (KEPT - 1)] = ns
        self.count += 1

    def stats(self) -> PhaseStats:
        """Statistics of all calls so far."""
        calls = sorted(self.recent[: min(self.count, KEPT)]) or [0]
        return PhaseStats(
            seconds=self.total_ns / 1e9,
            calls=self.count,
            p50_us=calls[len(calls) // 2] / 1e3,
            p95_us=calls[len(calls) * 19 // 20] / 1e3,
        )


class PhaseTimer:
    """Nanosecond totals per phase. Entering a phase allocates nothing; phases do not nest.

    Args:
        clock: Returns nanoseconds: wall time by default, or CPU time such as
            `time.process_time_ns`.
    """

    def __init__(self, clock: Callable[[], int] = perf_counter_ns) -> None:
        self.clock = clock
        self._spans = tuple(_Span(clock) for _ in Phase)
        self._start = clock()

    def __getitem__(self, phase: Phase | str) -> _Span:
        """The context manager of a phase, which may be given by name: `timer["env"]`.

        Raises:
            KeyError: There is no such phase.
        """
        return self._spans[Phase[phase.upper()] if isinstance(phase, str) else phase]

    def use(self, clock: Callable[[], int]) -> None:
        """Switch to another clock and reset; no phase may be under way."""
        self.clock = clock
        for span in self._spans:
            span.clock = clock
        self.reset()

    def reset(self) -> None:
        """Set all totals to zero and restart the total time."""
        for span in self._spans:
            span.total_ns = 0
            span.count = 0
        self._start = self.clock()

    def seconds(self) -> dict[str, float]:
        """Seconds per phase since the last reset; `other` is what no phase covered."""
        whole = (self.clock() - self._start) / 1e9
        totals = {phase.name.lower(): self._spans[phase].total_ns / 1e9 for phase in Phase}
        totals["other"] += max(0.0, whole - sum(totals.values()))
        return totals

    def stats(self) -> dict[str, PhaseStats]:
        """Statistics of every phase since the last reset; `other` is what no phase covered."""
        totals = self.seconds()
        found = {phase.name.lower(): self._spans[phase].stats() for phase in Phase}
        return {name: replace(stats, seconds=totals[name]) for name, stats in found.items()}
