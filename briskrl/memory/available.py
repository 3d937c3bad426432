"""How much memory a replay or rollout buffer needs, and whether this machine has it."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

import psutil

from briskrl.core.errors import ConfigError
from briskrl.core.spec import EnvSpec

WORTH_A_NOTE = 1_000_000_000
"""Bytes from which the size of a memory is announced."""
_CGROUP = Path("/sys/fs/cgroup")


def announce_memory(
    spec: EnvSpec, transitions: int, setting: str, note: Callable[[str], None], *, coded: bool
) -> None:
    """Report the size of a large memory before it is allocated.

    Args:
        spec: Observations and actions.
        transitions: How many the memory holds.
        setting: What to make smaller, for the message.
        note: Receives the message.
        coded: Whether codes are stored instead of observations.

    Raises:
        ConfigError: This machine does not have so much free memory.
    """
    each = spec.code_words * 8 if coded else stored_bytes(spec)
    # Reward, flags, a small action and the mask.
    needed = transitions * (each + 9 + spec.mask_width)
    free = available_bytes()
    text = (
        f"{transitions:,} transitions of {each:,} bytes an observation take {needed / 1e9:.1f} GB "
        f"of memory; {free / 1e9:.1f} GB are free"
    )
    if needed > free:
        raise ConfigError(f"{text}. Make {setting} smaller.")
    if needed >= WORTH_A_NOTE:
        note(f"memory: {text}")


def stored_bytes(spec: EnvSpec) -> int:
    """Bytes of an observation in a replay buffer, which stores every frame of a stack once."""
    return spec.obs.size * spec.obs.dtype.itemsize // spec.frame_stack


def available_bytes() -> int:
    """Free memory of this machine, or of the container that this process runs in."""
    free = int(psutil.virtual_memory().available)
    with suppress(OSError, ValueError):
        limit = int((_CGROUP / "memory.max").read_text())
        used = int((_CGROUP / "memory.current").read_text())
        free = min(free, max(0, limit - used))
    return free
