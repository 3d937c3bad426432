"""SIGINT and SIGTERM as a wish that the loop grants at its next safe point."""

from __future__ import annotations

import signal
import threading
from types import FrameType, TracebackType
from typing import Any, Literal

_NAMES: dict[int, Literal["sigint", "sigterm"]] = {
    signal.SIGINT: "sigint",
    signal.SIGTERM: "sigterm",
}


class StopRequest:
    """While entered, keeps the first stop signal in `requested`; a second SIGINT interrupts.

    Handlers are installed even where SIGINT was ignored, as it is for background jobs of scripts: a
    signal sent to a training run always means save and leave. Outside the main thread, where Python
    allows no handlers, nothing is installed and `requested` can be set by hand.
    """

    def __init__(self) -> None:
        self.requested: Literal["sigint", "sigterm"] | None = None
        self._interrupts = 0
        self._before: dict[int, Any] = {}

    def __enter__(self) -> StopRequest:
        if threading.current_thread() is threading.main_thread():
            for number in _NAMES:
                self._before[number] = signal.signal(number, self._handle)
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        while self._before:
            number, handler = self._before.popitem()
            # None stands for a handler that was not installed from Python and cannot be put back.
            signal.signal(number, signal.SIG_DFL if handler is None else handler)

    def _handle(self, number: int, frame: FrameType | None) -> None:
        self._interrupts += number == signal.SIGINT
        if self._interrupts > 1:
            raise KeyboardInterrupt
        if self.requested is None:
            self.requested = _NAMES[number]
