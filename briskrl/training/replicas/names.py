"""Names of the states and chunks of a run with replicas in its checkpoints."""

from __future__ import annotations

import re
from collections.abc import Iterable

_OTHER = re.compile(r"replica([1-9]\d{0,2})\.(.+)")


def prefix(rank: int) -> str:
    """Before the names of a replica's states and chunks; those of the first one have none."""
    return f"replica{rank}." if rank else ""


def owner(name: str) -> tuple[int, str]:
    """The replica that a state or chunk belongs to, and its name there."""
    match = _OTHER.fullmatch(name)
    return (int(match[1]), match[2]) if match else (0, name)


def count_replicas(states: Iterable[str]) -> int:
    """The replicas that states of these names belong to."""
    return 1 + max(owner(name)[0] for name in states)
