"""Small jobs that misbehave on request; workers import this module."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from briskrl.cluster.job import JobContext, JobStopped
from briskrl.core.errors import BriskError
from briskrl.core.types import JSON


@dataclass(frozen=True)
class Square:
    """Reports once and returns the square of a number, after some seconds."""

    name: str
    number: int = 3
    seconds: float = 0.0
    num_cpus: int = 1
    num_gpus: float = 0.0

    def run(self, context: JobContext) -> dict[str, JSON]:
        context.report({"number": self.number})
        begin = time.time()
        time.sleep(self.seconds)
        return {
            "square": self.number**2,
            "pid": os.getpid(),
            "begin": begin,
            "end": time.time(),
            "threads": os.environ.get("OMP_NUM_THREADS"),
            "gpus": os.environ.get("CUDA_VISIBLE_DEVICES"),
            "descriptors": len(os.listdir("/proc/self/fd")),
        }


def nothing() -> None:
    pass


def kill_self() -> None:
    os.kill(os.getpid(), signal.SIGKILL)


def exit_at_once() -> None:
    os._exit(7)


def hang() -> None:
    # Neither asleep nor responsive to signals, as a loop inside a library.
    signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGTERM])
    time.sleep(600)


def raise_bug() -> None:
    raise RuntimeError("a bug")


def use_up_memory() -> None:
    raise MemoryError


def raise_user_error() -> None:
    raise BriskError("this cannot work")


def fill_disk() -> None:
    raise OSError(28, "No space left on device")


def stop_self() -> None:
    os.kill(os.getpid(), signal.SIGTERM)
    time.sleep(60)


@dataclass(frozen=True)
class Fails:
    """Misbehaves in its first `times` attempts, then returns the number of the attempt."""

    name: str
    how: Callable[[], None]
    times: int = 1
    num_cpus: int = 1
    num_gpus: float = 0.0

    def run(self, context: JobContext) -> dict[str, JSON]:
        attempt = count_attempt(context.folder)
        context.publish()
        os.write(1, b"attempt %d\n" % attempt)
        if attempt <= self.times:
            self.how()
        return {"attempt": attempt}


@dataclass(frozen=True)
class Saves:
    """Works until it is stopped, and saves then; reports that it has begun."""

    name: str
    num_cpus: int = 1
    num_gpus: float = 0.0

    def run(self, context: JobContext) -> dict[str, JSON]:
        try:
            context.report({"working": True})
            time.sleep(120)
        except JobStopped:
            (context.folder / "saved").write_text("yes")
            context.publish()
            raise
        return {}


@dataclass(frozen=True)
class Forks:
    """Returns in two processes, as a job does that forks by mistake."""

    name: str
    num_cpus: int = 1
    num_gpus: float = 0.0

    def run(self, context: JobContext) -> dict[str, JSON]:
        context.report({"forks": True})
        child = os.fork()
        return {"child": child, "pid": os.getpid()}


@dataclass(frozen=True)
class LeavesChild:
    """Starts a process that would outlive it, then misbehaves."""

    name: str
    how: Callable[[], None]
    num_cpus: int = 1
    num_gpus: float = 0.0
    heeds_sigterm: bool = True
    """Whether SIGTERM stops it once it has reported."""

    def run(self, context: JobContext) -> dict[str, JSON]:
        if not self.heeds_sigterm:
            signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGTERM])
        child = os.fork()
        if not child:
            time.sleep(600)
            os._exit(0)
        (context.folder / "child").write_text(str(child))
        context.report({"child": child})
        self.how()
        return {}


@dataclass(frozen=True)
class LeavesThread:
    """Leaves a thread behind that goes on reporting."""

    name: str
    num_cpus: int = 1
    num_gpus: float = 0.0

    def run(self, context: JobContext) -> dict[str, JSON]:
        def report() -> None:
            while True:
                context.report({"late": True})
                time.sleep(0.005)

        threading.Thread(target=report, daemon=True).start()
        return {}


@dataclass(frozen=True)
class Prints:
    """Prints texts and bytes of every kind."""

    name: str
    num_cpus: int = 1
    num_gpus: float = 0.0

    def run(self, context: JobContext) -> dict[str, JSON]:
        sys.stdout.write("text: é → \ud800\n")
        sys.stderr.write("error: é → \U0001f40d\n")
        os.write(1, b"bytes: \xff\xfe\n")
        subprocess.run(["echo", "child: é"], check=True)
        return {}


@dataclass(frozen=True)
class Returns:
    """Returns a value of any type."""

    name: str
    value: object
    num_cpus: int = 1
    num_gpus: float = 0.0

    def run(self, context: JobContext) -> dict[str, JSON]:
        return {"value": self.value}


@dataclass(frozen=True)
class ShowsLife:
    """Works for some time, with signs of life and nothing to report."""

    name: str
    seconds: float
    num_cpus: int = 1
    num_gpus: float = 0.0

    def run(self, context: JobContext) -> dict[str, JSON]:
        end = time.monotonic() + self.seconds
        while time.monotonic() < end:
            context.report({})
            time.sleep(0.05)
        return {}


@dataclass(frozen=True)
class FillsDisk:
    """Writes to its folder until the disk is full."""

    name: str
    num_cpus: int = 1
    num_gpus: float = 0.0

    def run(self, context: JobContext) -> dict[str, JSON]:
        with (context.folder / "large").open("wb", buffering=0) as file:
            while True:
                file.write(bytes(1 << 16))


def count_attempt(folder: Path) -> int:
    """The number of this attempt, which is kept in the job's folder."""
    path = folder / "attempts"
    attempt = 1 + (int(path.read_text()) if path.exists() else 0)
    path.write_text(str(attempt))
    return attempt
