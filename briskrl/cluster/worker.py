"""What a worker process does: run the jobs that it gets, one after the other.

`run_order` runs one job in the current process and is the same for every executor. `main` is the
program of the worker processes of the local executor; it imports torch with the first job, and
keeps it.
"""

from __future__ import annotations

import gc
import io
import logging
import os
import pickle
import signal
import socket
import sys
import threading
import traceback
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from functools import partial
from pathlib import Path
from types import FrameType
from typing import ParamSpec

from briskrl import __version__
from briskrl.cluster.job import Job, JobContext, JobStopped
from briskrl.cluster.job_folder import open_job_folder
from briskrl.cluster.life_signs import LifeSigns
from briskrl.cluster.messages import (
    Begun,
    Inbox,
    Order,
    Outcome,
    Raised,
    Reply,
    Reported,
    Returned,
    Stopped,
    as_json,
    pack,
)
from briskrl.core.errors import BriskError
from briskrl.core.types import JSON

_log = logging.getLogger(__name__)

Report = Callable[[Mapping[str, JSON]], None]
P = ParamSpec("P")


def run_order(order: Order, report: Report, *, begin: Callable[[], None] = lambda: None) -> Outcome:
    """Run a job in this process and return how it ended; errors are part of the outcome.

    While it runs, SIGTERM stops it, if this is the main thread.

    Args:
        order: What to run.
        report: Sends values to the driver; without values, only a sign of life.
        begin: Called as soon as SIGTERM has this effect.
    """
    with _Stopping() as stopping:
        try:
            stopping.after(begin)()
            _check_version(order.version)
            job = _unpickle(order)
            report = stopping.after(report)
            place = Path(order.folder)
            with (
                open_job_folder(place, order.name, order.store, LifeSigns(report)) as folder,
                _logged_errors(),
            ):
                return Returned(as_json(job.run(JobContext(place, report, folder.publish))))
        except JobStopped:
            return Stopped(clean=not stopping.interrupted)
        except BriskError as error:
            return Raised(str(error), hopeless=True)
        except Exception as error:
            if stopping.interrupted:
                # Libraries turn exceptions of signal handlers into their own.
                return Stopped(clean=False)
            return Raised(f"{type(error).__name__}: {error}", hopeless=False)


@contextmanager
def _logged_errors() -> Iterator[None]:
    """Log errors of the block in the log of the job, which its user looks into."""
    try:
        yield
    except BriskError as error:
        _log.error("%s", error)
        raise
    except Exception:
        _log.error("%s", traceback.format_exc())
        raise


def _check_version(version: str) -> None:
    """Check that this process has the driver's version of briskrl.

    Raises:
        BriskError: It has another one.
    """
    if version != __version__:
        raise BriskError(
            f"The worker on {socket.gethostname()} has briskrl {__version__}, and the driver has "
            f"{version}. Results of different versions must not be mixed: install briskrl "
            f"{version} there, in {sys.executable}."
        )


def _unpickle(order: Order) -> Job:
    try:
        job: Job = pickle.loads(order.job)
    except (ImportError, AttributeError) as error:
        raise BriskError(
            f"The worker cannot import what the job {order.name} is made of ({error}). Define its "
            "class in a module that workers can import, not in the program itself."
        ) from error
    return job


class _Stopping:
    """While entered, SIGTERM raises a JobStopped."""

    def __init__(self) -> None:
        self.interrupted = False
        """Whether one was raised, or is about to be."""
        self._sending = False

    def __enter__(self) -> _Stopping:
        self._main = threading.current_thread() is threading.main_thread()
        if self._main:
            self._before = signal.signal(signal.SIGTERM, self._stop)
        return self

    def __exit__(self, *error: object) -> None:
        if self._main:
            signal.signal(signal.SIGTERM, self._before or signal.SIG_DFL)

    def _stop(self, number: int, frame: FrameType | None) -> None:
        # Once is enough; a second exception could interrupt the handling of the first.
        if not self.interrupted:
            self.interrupted = True
            if not self._sending:
                raise JobStopped

    def after(self, send: Callable[P, None]) -> Callable[P, None]:
        """The same function, but a stop waits until it has returned and its message is sent."""

        def send_whole(*args: P.args, **kwargs: P.kwargs) -> None:
            before = self.interrupted
            self._sending = True
            try:
                send(*args, **kwargs)
            finally:
                self._sending = False
            if self.interrupted and not before:
                raise JobStopped

        return send_whole


def main(connection: int) -> None:
    """Run jobs for the driver at the other end of the socket until it closes its end."""
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        # Not SIG_IGN, which programs started by environments would inherit.
        signal.signal(number, _ignore_signal)
    # A fork of a job, such as a worker of an environment, must neither take orders nor answer.
    os.register_at_fork(after_in_child=partial(_detach, connection))
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            # Logs are UTF-8 whatever the locale is, and nothing that a job prints stops it.
            stream.reconfigure(encoding="utf-8", errors="backslashreplace", line_buffering=True)
    logging.basicConfig(level=logging.INFO, format="%(asctime)s %(message)s")
    with suppress(ConnectionError):
        _serve(connection)


def _ignore_signal(number: int, frame: FrameType | None) -> None:
    """The driver gets the same signal and decides what to do."""


def _detach(connection: int) -> None:
    """Connect a descriptor to nothing, and keep its number from being used again."""
    nothing = os.open(os.devnull, os.O_RDWR)
    os.dup2(nothing, connection)
    os.close(nothing)


def _serve(connection: int) -> None:
    inbox = Inbox()
    while data := os.read(connection, 1 << 20):
        for order in inbox.feed(data):
            assert isinstance(order, Order)
            _send(connection, Reply(order.number, _run(order, connection)))
            # Networks and replay buffers of a run refer to each other.
            gc.collect()


def _run(order: Order, connection: int) -> Outcome:
    def begin() -> None:
        _send(connection, Reply(order.number, Begun(socket.gethostname())))

    def report(values: Mapping[str, JSON]) -> None:
        _send(connection, Reply(order.number, Reported(as_json(values))))

    return run_order(order, report, begin=begin)


def _send(connection: int, message: Reply) -> None:
    rest = memoryview(pack(message))
    while rest:
        rest = rest[os.write(connection, rest) :]
