"""Where the time goes: always-on counters around the phases of the training loop."""

from __future__ import annotations

from enum import IntEnum
from time import perf_counter_ns
from types import TracebackType


class Phase(IntEnum):
    """What the loop is doing; OTHER is whatever no phase covers."""

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


class _Span:
    """A reusable context manager that adds the time spent inside it to one counter."""

    __slots__ = ("_begin", "count", "total_ns")

    def __init__(self) -> None:
        self.total_ns = 0
        self.count = 0
        self._begin = 0

    def __enter__(self) -> None:
        self._begin = perf_counter_ns()

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.add(perf_counter_ns() - self._begin)

    def add(self, ns: int) -> None:
        """Count a stretch that was timed elsewhere."""
        self.total_ns += ns
        self.count += 1


class PhaseTimer:
    """Nanosecond totals per phase. Entering a phase allocates nothing; phases do not nest."""

    def __init__(self) -> None:
        self._spans = tuple(_Span() for _ in Phase)
        self._start = perf_counter_ns()

    def __getitem__(self, phase: Phase) -> _Span:
        """The context manager of a phase."""
        return self._spans[phase]

    def reset(self) -> None:
        """Forget everything; the wall time starts now."""
        for span in self._spans:
            span.total_ns = 0
            span.count = 0
        self._start = perf_counter_ns()

    def seconds(self) -> dict[str, float]:
        """Seconds per phase since the last reset; `other` is what no phase covered."""
        wall = perf_counter_ns() - self._start
        totals = {phase.name.lower(): self._spans[phase].total_ns / 1e9 for phase in Phase}
        totals["other"] = max(0.0, wall / 1e9 - sum(totals.values()))
        return totals
