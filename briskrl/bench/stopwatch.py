"""Total wall and CPU time of the parts of a benchmark that count."""

from __future__ import annotations

from time import perf_counter, process_time
from types import TracebackType


class Stopwatch:
    """A context manager that adds up the time spent inside; CPU time includes all threads."""

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
        # CPU time first: reading it is the more expensive call.
        cpu, wall = process_time(), perf_counter()
        self.wall_s += wall - self._begin[0]
        self.cpu_s += cpu - self._begin[1]


def per_second(count: float, seconds: float) -> float:
    """A rate; times below a nanosecond count as one, so that this never divides by zero."""
    return count / max(seconds, 1e-9)
