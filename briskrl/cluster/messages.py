"""What the driver and a worker process send each other: pickled objects, each after its length."""

from __future__ import annotations

import json
import pickle
import struct
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from briskrl.cluster.storage import Store
from briskrl.core.types import JSON
from briskrl.training.storage.line_files import plain

_SIZE = struct.Struct("<Q")


@dataclass(frozen=True, slots=True)
class Order:
    """From the driver: run this job."""

    version: str
    """Version of briskrl that the driver has."""
    job: bytes
    """The pickled job, which only the same version can read."""
    name: str
    folder: str
    """Folder of the job on the machine of the worker."""
    store: Store | None = None
    """Where to copy the folder to, for another attempt elsewhere; None if it is safe where it
    is."""
    number: int = 0
    """Of the attempt, among all attempts of the driver; comes back with every message."""


@dataclass(frozen=True, slots=True)
class Reply:
    """From a worker: what happens to the attempt of this number."""

    number: int
    content: Begun | Reported | Outcome


@dataclass(frozen=True, slots=True)
class Begun:
    """From a worker: the job begins."""

    node: str


@dataclass(frozen=True, slots=True)
class Reported:
    """From a worker: progress; without values, a sign of life."""

    values: Mapping[str, JSON]


@dataclass(frozen=True, slots=True)
class Returned:
    """The job has returned its result."""

    result: Mapping[str, JSON]


@dataclass(frozen=True, slots=True)
class Raised:
    """The job has raised an error."""

    cause: str
    hopeless: bool
    """Whether another attempt would fail, too."""


@dataclass(frozen=True, slots=True)
class Stopped:
    """The job was asked to stop, and has stopped."""

    clean: bool
    """Whether it has returned in its own time, so that the process can run other jobs."""


Outcome = Returned | Raised | Stopped
"""How an attempt of a job has ended, if the process has survived it."""


def as_json(values: Mapping[str, JSON]) -> dict[str, JSON]:
    """The values as Python's own types, which every process can unpickle.

    Raises:
        TypeError: A value is not of a type that JSON has.
    """
    found: dict[str, JSON] = plain(values)
    json.dumps(found)
    return found


def pack(message: object) -> bytes:
    """The bytes of one message."""
    body = pickle.dumps(message, pickle.HIGHEST_PROTOCOL)
    return _SIZE.pack(len(body)) + body


class Inbox:
    """Puts messages together from the bytes that arrive."""

    def __init__(self) -> None:
        self._bytes = bytearray()

    def feed(self, data: bytes) -> Iterator[Any]:
        """Add bytes; the messages that are complete now, in order."""
        self._bytes += data
        while len(self._bytes) >= _SIZE.size:
            (size,) = _SIZE.unpack_from(self._bytes)
            end = _SIZE.size + size
            if len(self._bytes) < end:
                return
            body = bytes(self._bytes[_SIZE.size : end])
            del self._bytes[:end]
            yield pickle.loads(body)
