"""End the program within seconds after a signal, also while it compiles.

Python runs signal handlers between two bytecodes of the main thread, but compiling one kernel is a
single call that can take twenty seconds. So a thread of its own reads from a pipe which signals
have arrived, and ends the process if the main thread does not, as long as nothing would be lost.
Whatever is killed may be killed anyway: worker processes end with their parent, shared memory has
no name, and run folders can be resumed after every write.

Only the `brisk` program has an ExitWatch. A library must not end the program that uses it; there,
`nothing_to_lose` has no effect.
"""

from __future__ import annotations

import os
import select
import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from time import monotonic
from types import FrameType, TracebackType

GRACE_S = 2.0
"""How long the main thread may take to react to a signal."""

_JUST_BEFORE_S = 0.5
"""The handler may run this long before the thread reads that its signal has arrived."""

_SHOW_CURSOR = b"\x1b[?25h"

_COMPILERS = (f"{os.sep}llvmlite{os.sep}", f"{os.sep}numba{os.sep}core{os.sep}")
"""Parts of the paths of compilers."""

_REASONS = {
    signal.SIGINT: "interrupted",
    signal.SIGTERM: "terminated",
    signal.SIGHUP: "the terminal was closed",
}

_notes: list[str] = []
scratch_folders: set[str] = set()
"""Folders to remove if the process is ended."""


class StoppedError(KeyboardInterrupt):
    """A signal has arrived; like KeyboardInterrupt, no error that should be handled on the way."""

    def __init__(self, number: int) -> None:
        super().__init__(_REASONS[signal.Signals(number)])
        self.exit_code = 128 + number


@contextmanager
def nothing_to_lose(note: str = "") -> Iterator[None]:
    """While entered, a signal may end the program at once; the note is printed then."""
    _notes.append(note)
    try:
        yield
    finally:
        _notes.pop()


class ExitWatch:
    """Turns SIGINT, SIGTERM and SIGHUP into StoppedError, or ends the process if that takes long.

    For the main thread of a program, from its start to its end: afterwards the signals are ignored,
    so that none interrupts the interpreter while it shuts down. Signals that were ignored before
    (SIGHUP under nohup) stay ignored.
    """

    def __init__(self) -> None:
        self._interrupts = 0
        self._handled_at = 0.0
        self._closed = threading.Event()
        self._numbers = [n for n in _REASONS if signal.getsignal(n) != signal.SIG_IGN]

    def __enter__(self) -> ExitWatch:
        arrived, self._pipe = os.pipe()
        os.set_blocking(self._pipe, False)
        signal.set_wakeup_fd(self._pipe, warn_on_full_buffer=False)
        # Signals to a forked process are not signals to this one.
        os.register_at_fork(after_in_child=_forget_pipe)
        for number in self._numbers:
            signal.signal(number, self._raise)
        name = "signals"
        threading.Thread(target=self._watch, args=(arrived,), name=name, daemon=True).start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        for number in self._numbers:
            signal.signal(number, signal.SIG_IGN)
        self._closed.set()

    def _raise(self, number: int, frame: FrameType | None) -> None:
        self._handled_at = monotonic()
        # Modules in C turn exceptions while they are imported into other errors. Callbacks of LLVM
        # print and drop them, and its unfinished objects cannot be freed safely.
        if _is_importing(frame) or _is_compiling(frame):
            _end(number)
        raise StoppedError(number)

    def _watch(self, pipe: int) -> None:
        while not self._closed.is_set():
            number = os.read(pipe, 1)[0]
            arrived = monotonic()
            self._interrupts += number == signal.SIGINT
            if number not in _REASONS or self._closed.wait(GRACE_S):
                continue
            if self._must_end(number, arrived):
                _end(number)

    def _must_end(self, number: int, arrived: float) -> bool:
        """Whether to end a process that still runs some time after a signal."""
        if _notes or self._interrupts > 1:
            return True
        # Training has handlers of its own, which let it save.
        unhandled = self._handled_at < arrived - _JUST_BEFORE_S
        return signal.getsignal(number) == self._raise and unhandled


def _end(number: int) -> None:
    """End the process at once."""
    import shutil

    note = _notes[-1] if _notes else ""
    text = f"brisk: {_REASONS[signal.Signals(number)]}{'. ' if note else ''}{note}\n"
    with suppress(OSError):
        if os.isatty(1):
            _write(1, _SHOW_CURSOR)
        _write(2, text.encode())
    _kill_children()
    for folder in list(scratch_folders):
        shutil.rmtree(folder, ignore_errors=True)
    os._exit(128 + number)


def _write(descriptor: int, data: bytes) -> None:
    """Write unless that would block, as on a terminal that was paused."""
    if select.select([], [descriptor], [], 0)[1]:
        os.write(descriptor, data)


def _kill_children() -> None:
    """Kill the processes that this one has started, on systems that list them."""
    for listed in Path("/proc/self/task").glob("*/children"):
        with suppress(OSError):
            for child in listed.read_text().split():
                os.kill(int(child), signal.SIGKILL)


def _is_importing(frame: FrameType | None) -> bool:
    return any(name.startswith("<frozen importlib") for name in _files(frame))


def _is_compiling(frame: FrameType | None) -> bool:
    return any(part in name for name in _files(frame) for part in _COMPILERS)


def _files(frame: FrameType | None) -> Iterator[str]:
    """The files of a frame and of its callers."""
    while frame is not None:
        yield frame.f_code.co_filename
        frame = frame.f_back


def _forget_pipe() -> None:
    with suppress(ValueError):
        signal.set_wakeup_fd(-1)
