"""Ticks for a loop that runs in a thread while the main thread waits for it.

Python runs the handler of a signal in the main thread only, and not while that waits for a lock.
Then a thread of the watcher takes the samples. It has to wait for the interpreter's lock, so its
samples fall where the loop gives that up.
"""

from __future__ import annotations

import threading
import time
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable


IDLE_S = 0.05
"""Time between two looks while the main thread takes ticks itself."""


class ThreadTicks:
    """A thread that samples as long as nothing else does.

    Args:
        sample: Takes a sample if the main thread does not; returns whether, or None at the end.
        tick_s: Time between two samples.
    """

    def __init__(self, sample: Callable[[], bool | None], tick_s: float) -> None:
        self._sample = sample
        self._tick_s = tick_s
        self._started = False

    def begin(self) -> None:
        """Start the thread, once."""
        if not self._started:
            self._started = True
            threading.Thread(target=self._run, name="brisk-watcher", daemon=True).start()

    def _run(self) -> None:
        while (seen := self._sample()) is not None:
            time.sleep(self._tick_s if seen else IDLE_S)
