"""A thread that lends a hand while another one works, and sleeps when there is nothing to do."""

from __future__ import annotations

import threading
from collections.abc import Callable


class Assistant:
    """Calls a function again and again while it is awake.

    Args:
        lend: Compiled work that returns after looking for something to do in vain for a while. It
            must not hold on to whoever owns the assistant.
        leave: Makes `lend` return soon, for good.
    """

    def __init__(self, lend: Callable[[], None], leave: Callable[[], None]) -> None:
        self._lend = lend
        self._leave = leave
        self._stopped = False
        self._asleep = False
        self._go = threading.Lock()
        self._go.acquire()
        self._thread = threading.Thread(target=self._work, daemon=True, name="brisk-assistant")
        self._thread.start()

    def wake(self) -> None:
        """There will be something to do; costs nothing if the assistant is awake."""
        if self._asleep:
            self._asleep = False
            self._go.release()

    def stop(self) -> None:
        """End the thread."""
        self._stopped = True
        self._leave()
        self.wake()
        self._thread.join(timeout=1.0)

    def _work(self) -> None:
        while not self._stopped:
            self._lend()
            self._asleep = True
            # Whoever stops or wakes between these lines finds this thread asleep.
            if self._stopped:
                return
            self._go.acquire()
