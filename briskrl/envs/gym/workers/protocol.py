"""Messages between the trainer and a worker, for everything except steps.

A message is a pickled object preceded by its length; both ends are processes of the same run.
Between messages, the trainer may send single bytes that only wake the worker up.
"""

from __future__ import annotations

import os
import pickle
import struct
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

WAKE, MESSAGE = b"\0", b"\1"
_SIZE = struct.Struct("<Q")


@dataclass(frozen=True, slots=True)
class StartMessage:
    """The first message to a worker."""

    factory: Any
    plan: Any
    index: int
    """Index of the worker."""
    registration: bytes | None
    """The pickled entry of Gymnasium's registry; None if it cannot be pickled."""
    spin_s: float
    trainer_pid: int


@dataclass(frozen=True, slots=True)
class Command:
    """A call of a method of the worker's `EnvGroup`, or "stop"."""

    name: str
    arguments: tuple[Any, ...] = ()


@dataclass(frozen=True, slots=True)
class Failure:
    """An error in a worker, sent instead of a result or during a step."""

    message: str
    traceback: str
    index: int
    """Index of the environment in the batch; -1 if unknown."""
    user_error: bool
    """Whether the environment cannot be made with these settings; a new worker would not help."""


def pack(message: object) -> bytes:
    """The bytes of one message."""
    body = pickle.dumps(message, pickle.HIGHEST_PROTOCOL)
    return MESSAGE + _SIZE.pack(len(body)) + body


def write(fd: int, message: object) -> None:
    """Send one message through a blocking descriptor."""
    rest = memoryview(pack(message))
    while rest:
        rest = rest[os.write(fd, rest) :]


def read(fd: int) -> Any:
    """The next message of a blocking descriptor, or None if a wake-up came instead.

    Raises:
        EOFError: The other side has closed its end.
    """
    return read_with(lambda size: os.read(fd, size))


def read_with(receive: Callable[[int], bytes]) -> Any:
    """The next message, or None for a wake-up; `receive(n)` returns at most n bytes.

    Raises:
        EOFError: The other side has closed its end.
    """
    if _read_exactly(receive, 1) == WAKE:
        return None
    (size,) = _SIZE.unpack(_read_exactly(receive, _SIZE.size))
    return pickle.loads(_read_exactly(receive, size))


def _read_exactly(receive: Callable[[int], bytes], size: int) -> bytes:
    parts = []
    while size:
        part = receive(min(size, 1 << 20))
        if not part:
            raise EOFError
        parts.append(part)
        size -= len(part)
    return b"".join(parts)
