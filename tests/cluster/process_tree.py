"""What the processes below one have opened, as Linux lists it."""

from __future__ import annotations

import os
from contextlib import suppress
from pathlib import Path

import psutil

_LISTENING_TCP = "0A"
_ACCEPTS_CONNECTIONS = 0x10000


def tree(pid: int) -> list[int]:
    """The process and all below it."""
    return [pid, *(child.pid for child in psutil.Process(pid).children(recursive=True))]


def listening_sockets(pids: list[int]) -> list[str]:
    """Lines of /proc/net that describe listening sockets of these processes."""
    own = {inode for pid in pids for inode in _sockets(pid)}
    return [line for inode, line in _listening() if inode in own]


def _sockets(pid: int) -> list[str]:
    found = []
    for entry in Path(f"/proc/{pid}/fd").iterdir():
        with suppress(FileNotFoundError):
            target = os.readlink(entry)
            if target.startswith("socket:["):
                found.append(target[len("socket:[") : -1])
    return found


def _listening() -> list[tuple[str, str]]:
    found = []
    for name in ("tcp", "tcp6", "udp", "udp6"):
        path = Path("/proc/net") / name
        for line in path.read_text().splitlines()[1:] if path.exists() else ():
            fields = line.split()
            # A UDP socket has no such state: any one of them can be sent to.
            if fields[3] == _LISTENING_TCP or name.startswith("udp"):
                found.append((fields[9], line))
    for line in Path("/proc/net/unix").read_text().splitlines()[1:]:
        fields = line.split()
        if int(fields[3], 16) & _ACCEPTS_CONNECTIONS:
            found.append((fields[6], line))
    return found
