"""How the watcher and the doctor talk: a file of JSON lines to the doctor, a mapped file back.

Neither can block the script: lines go to a plain file that the doctor reads as it grows, and a
command is a change of the first byte of a page of shared memory.
"""

from __future__ import annotations

import fcntl
import json
import mmap
import os
from typing import Any

RECORDS, CONTROL = "records.jsonl", "control"
PAGE = 65536
RATES = PAGE - 16
"""Place in the page of two numbers of 8 bytes: cores in use, in thousandths, added up over all
ticks for which they are known, and the number of these ticks."""
LEAST_DESCRIPTOR = 200
"""Descriptors below belong to the script."""


class Channel:
    """The watcher's end of the connection.

    Args:
        folder: The folder that the doctor has prepared.
    """

    def __init__(self, folder: str) -> None:
        self._file = _private(
            os.open(os.path.join(folder, RECORDS), os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)
        )
        control = os.open(os.path.join(folder, CONTROL), os.O_RDONLY)
        self.control = mmap.mmap(control, PAGE, mmap.MAP_SHARED, mmap.PROT_READ)
        os.close(control)
        self.seen = self.control[0]
        """Number of the last command, modulo 256."""
        self._rates = (0, 0)

    def send(self, lines: list[dict[str, Any]]) -> None:
        """Write records, in one call of the system; none are written after a failure."""
        if self._file < 0:
            return
        text = "".join(json.dumps(line, separators=(",", ":")) + "\n" for line in lines)
        data = text.encode()
        try:
            written = os.write(self._file, data)
        except OSError:  # The script has closed all files, or the disk is full.
            written = 0
        if written < len(data):
            self._file = -1

    def cores_in_use(self) -> float:
        """Cores that the process has used at the ticks since the last call; -1 if unknown."""
        page, before = self.control, self._rates
        now = (
            int.from_bytes(page[RATES : RATES + 8], "little"),
            int.from_bytes(page[RATES + 8 : RATES + 16], "little"),
        )
        if now[1] <= before[1]:
            return -1.0
        self._rates = now
        return (now[0] - before[0]) / (now[1] - before[1]) / 1000

    def receive(self) -> dict[str, Any]:
        """The command that has arrived; call only if `control[0]` differs from `seen`."""
        self.seen = self.control[0]
        size = int.from_bytes(self.control[4:8], "little")
        command: dict[str, Any] = json.loads(self.control[8 : 8 + size])
        return command


def _private(descriptor: int) -> int:
    """The same file under a number that scripts do not use, not passed on to other programs."""
    try:
        moved = fcntl.fcntl(descriptor, fcntl.F_DUPFD_CLOEXEC, LEAST_DESCRIPTOR)
    except OSError:  # A low limit of open files.
        return descriptor
    os.close(descriptor)
    return moved
