"""What happens between iterations: reporting and saving when they are due, and stop requests."""

from __future__ import annotations

import signal
import threading
from time import monotonic
from types import FrameType, TracebackType
from typing import TYPE_CHECKING, Any, Protocol

from briskrl.core.phase import Phase
from briskrl.training.reporter import StopSignal

if TYPE_CHECKING:
    from briskrl.training.recorder import RunRecorder


class Hook(Protocol):
    """Called between iterations; must be cheap when it has nothing to do."""

    def __call__(self, recorder: RunRecorder, /) -> None:
        """Do what is due now."""
        ...


class Interval:
    """A period of time that is waited for again and again; 0 seconds never pass."""

    def __init__(self, seconds: float) -> None:
        self._seconds = seconds
        self.restart()

    def restart(self) -> None:
        """Wait from now on."""
        self._due = monotonic() + self._seconds

    def has_passed(self) -> bool:
        """Whether the time has passed since the construction or the last `restart`."""
        return self._seconds > 0 and monotonic() >= self._due


class ReportHook:
    """Writes a row of metrics and the status file, and reports progress, every few seconds."""

    def __init__(self, seconds: float) -> None:
        self._seconds = seconds
        self._due = monotonic() + seconds

    def __call__(self, recorder: RunRecorder) -> None:
        """Report if it is time."""
        now = monotonic()
        if now >= self._due:
            self._due = now + self._seconds
            with recorder.trainer.timer[Phase.LOG]:
                recorder.report()


class EvaluationHook:
    """Evaluates the policy when it is due, and keeps the best one."""

    def __call__(self, recorder: RunRecorder) -> None:
        """Evaluate if it is time."""
        if recorder.evaluation.is_due(recorder.trainer):
            with recorder.trainer.timer[Phase.EVAL]:
                recorder.evaluate()


class CheckpointHook:
    """Saves a checkpoint every `steps` transitions, every `seconds`, or both; 0 disables either."""

    def __init__(self, *, steps: int, seconds: float) -> None:
        self._steps = steps
        self._interval = Interval(seconds)

    def __call__(self, recorder: RunRecorder) -> None:
        """Save if it is time."""
        if self.is_due(recorder):
            with recorder.trainer.timer[Phase.SAVE]:
                recorder.save()
            self.restart()

    def is_due(self, recorder: RunRecorder) -> bool:
        """Whether it is time to save."""
        return self._by_steps(recorder) or self._interval.has_passed()

    def restart(self) -> None:
        """Count the seconds from now on."""
        self._interval.restart()

    def _by_steps(self, recorder: RunRecorder) -> bool:
        if not self._steps:
            return False
        now = recorder.trainer.counters.env_steps
        return now // self._steps > (now - recorder.trainer.last_collected) // self._steps


_NAMES: dict[int, StopSignal] = {
    signal.SIGHUP: "sighup",
    signal.SIGINT: "sigint",
    signal.SIGTERM: "sigterm",
}


class StopRequest:
    """Turns SIGINT, SIGTERM and SIGHUP into `requested`, which the loop checks between iterations.

    The first signal is kept in `requested`; a second SIGINT raises KeyboardInterrupt. Handlers are
    installed even where SIGINT was ignored, as it is for background jobs of scripts: a signal sent
    to a training run always means save and exit. Only an ignored SIGHUP stays ignored, because that
    is what nohup is for. Outside the main thread, where Python allows no handlers, nothing is
    installed and `requested` can be set by hand.
    """

    def __init__(self) -> None:
        self.requested: StopSignal | None = None
        self._interrupts = 0
        self._before: dict[int, Any] = {}

    def __enter__(self) -> StopRequest:
        if threading.current_thread() is threading.main_thread():
            for number in _NAMES:
                if number != signal.SIGHUP or signal.getsignal(number) != signal.SIG_IGN:
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
            # None means a handler that was not installed from Python and cannot be restored.
            signal.signal(number, signal.SIG_DFL if handler is None else handler)

    def _handle(self, number: int, frame: FrameType | None) -> None:
        self._interrupts += number == signal.SIGINT
        if self._interrupts > 1:
            raise KeyboardInterrupt
        if self.requested is None:
            self.requested = _NAMES[number]
