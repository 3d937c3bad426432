"""Messages between a trainer and a worker, for everything that is not a step.

A message is a pickled object behind its length; both ends are processes of one user and one run.
Between messages a trainer may send single bytes that only wake the worker up.
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
class Boot:
    """What a worker is told first."""

    recipe: Any
    plan: Any
    index: int
    """Which worker of the plan it is."""
    registration: bytes | None
    """The pickled entry of the environment in Gymnasium's table, if it can be sent."""
    spin_s: float
    trainer_pid: int


@dataclass(frozen=True, slots=True)
class Command:
    """A call of one of the worker's methods."""

    name: str
    arguments: tuple[Any, ...] = ()


@dataclass(frozen=True, slots=True)
class Failure:
    """What went wrong in a worker, in place of an answer or in the middle of a step."""

    message: str
    traceback: str
    index: int
    """Which environment of the batch; -1 if it is not known."""
    user_error: bool
    """Whether the environment could not be made as asked, which no new worker would change."""


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
    """The next message, or None for a wake-up, by a function that receives at most so many bytes.

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
