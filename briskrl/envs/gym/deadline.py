"""A deadline for calls into an environment that run in this process."""

from __future__ import annotations

import signal
import threading
from types import FrameType, TracebackType
from typing import Any

from briskrl.core.errors import EnvWorkerError

LONGEST_S = 1e8
"""Longer deadlines are none."""
REPEAT_S = 1.0
"""An expired deadline interrupts again, should the environment have caught the first one."""


class _Expired(BaseException):
    """Raised inside the environment's code, which must not mistake it for an error of its own."""


class Deadline:
    """Ends calls in a `with` block that take longer than `seconds`.

    It interrupts Python code and waiting system calls, but not a computation inside a library. The
    timer is the process's alarm, so it works in the main thread only and does nothing elsewhere.

    Args:
        seconds: Time that one call may take, or infinity; `restart` begins the next one.
        what: What is being done, for the message: "gym:X cannot be made: its constructor".
    """

    def __init__(self, seconds: float, what: str) -> None:
        # A larger number overflows the system's timer.
        self._seconds = min(seconds, LONGEST_S)
        self._what = what
        self._before: Any = None
        self._is_armed = False
        self._is_over = False

    def __enter__(self) -> Deadline:
        if hasattr(signal, "setitimer") and self._seconds < LONGEST_S:
            self._is_armed = threading.current_thread() is threading.main_thread()
        if self._is_armed:
            self._before = signal.signal(signal.SIGALRM, self._expire)
            try:
                self.restart()
            except _Expired as error:
                # A timeout of a few microseconds is over already.
                self.__exit__(_Expired, error, None)
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        # The alarm may come at any moment up to the next but one line.
        self._is_over = True
        if not self._is_armed:
            return
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, signal.SIG_DFL if self._before is None else self._before)
        if isinstance(error, _Expired):
            raise EnvWorkerError(
                f"{self._what} has not returned for {self._seconds:g} s (env_timeout)."
            ) from None

    def restart(self) -> None:
        """Allow the next call the whole time."""
        if self._is_armed:
            signal.setitimer(signal.ITIMER_REAL, self._seconds, REPEAT_S)

    def _expire(self, number: int, frame: FrameType | None) -> None:
        if not self._is_over:
            raise _Expired
