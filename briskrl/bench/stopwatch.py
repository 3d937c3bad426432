"""Wall and CPU time of the stretches that count, added up."""

from __future__ import annotations

from time import perf_counter, process_time
from types import TracebackType


class Stopwatch:
    """Adds up the time spent inside it; CPU time is that of all threads of the process."""

    def __init__(self) -> None:
        self.wall_s = 0.0
        self.cpu_s = 0.0
        self._begin = (0.0, 0.0)

    def __enter__(self) -> Stopwatch:
        self._begin = (perf_counter(), process_time())
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        # CPU time first: reading it is the dearer call.
        cpu, wall = process_time(), perf_counter()
        self.wall_s += wall - self._begin[0]
        self.cpu_s += cpu - self._begin[1]


def per_second(count: float, seconds: float) -> float:
    """A rate; the span is at least a nanosecond, so that a tiny budget divides by no zero."""
    return count / max(seconds, 1e-9)
