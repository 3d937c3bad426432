"""How many cores a process uses at the moment, measured from outside just before every tick.

CPU time that is read at the ticks themselves would mix everything since the last one. A short look
before each tick belongs to the code that the tick then finds.
"""

from __future__ import annotations

import time

LOOK_S = 0.0005
"""Length of a look."""
LEAST_S = 0.0001
"""A shorter look gives no answer."""


class CoresInUse:
    """Looks at the CPU clock of another process.

    Args:
        pid: The process.
    """

    def __init__(self, pid: int) -> None:
        # Number of the CPU clock of a whole process, see clock_getcpuclockid(3) of Linux.
        self._clock = (~pid << 3) | 2
        self._since: tuple[float, float] | None = None

    def begin(self) -> None:
        """Begin to look."""
        self._since = self._read()

    def end(self) -> float | None:
        """Mean number of cores in use since `begin`; None if the system does not report it."""
        before, now = self._since, self._read()
        self._since = None
        if before is None or now is None or now[0] - before[0] < LEAST_S:
            return None
        return (now[1] - before[1]) / (now[0] - before[0])

    def _read(self) -> tuple[float, float] | None:
        try:
            return time.perf_counter(), time.clock_gettime(self._clock)
        except (OSError, OverflowError, ValueError):  # It has ended, or this is not Linux.
            return None
