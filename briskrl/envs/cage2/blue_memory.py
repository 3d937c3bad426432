"""What blue knows besides the 52 bits of a step, rebuilt outside the simulator with NumPy alone.

The environment adds this memory to its observations (see `kernels/observation.py`, whose slow
counterpart this is). Everything follows from the bits seen and the actions taken: whether a decoy
succeeds depends only on the host and the decoys that are up.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from briskrl.core.errors import InvalidStateError
from briskrl.core.types import Array, Bools, Floats, Ints
from briskrl.envs.cage2 import scenario as s

_BITS = 4 * s.NUM_HOSTS
_NUM_DECOYS = len(s.DECOYS)
_FIRST_DECOY = s.ACTION_NAMES.index(f"Decoy{s.DECOY_NAMES[0]} {s.HOST_NAMES[0]}")
_FIRST_RESTORE = s.ACTION_NAMES.index(f"Restore {s.HOST_NAMES[0]}")


def _fits() -> Bools:
    """(13, 8): decoys that fit a host without decoys."""
    fits = np.zeros((s.NUM_HOSTS, _NUM_DECOYS), np.bool_)
    for h, host in enumerate(s.HOSTS):
        ports = {service.port for service in host.services}
        for d, decoy in enumerate(s.DECOYS):
            fits[h, d] = decoy.system in (None, host.system) and decoy.checks not in ports
    return fits


_FITS = _fits()
_BLOCKS = np.array([[up.opens == decoy.checks for decoy in s.DECOYS] for up in s.DECOYS])
"""(8, 8): whether a decoy that is up takes the port that another one checks."""


def blue_memory(settings: Mapping[str, Any]) -> BlueMemory | None:
    """The memory for an environment's settings; None if its observations are the raw bits.

    Args:
        settings: The fields of Cage2Config by name.
    """
    memory = BlueMemory(settings)
    return memory if memory.is_needed else None


class BlueMemory:
    """Observations, masks and actions of N networks, from the 52 bits of each step.

    Args:
        settings: The fields of Cage2Config by name.
    """

    raw_shape = (_BITS,)

    def __init__(self, settings: Mapping[str, Any]) -> None:
        self._frames = int(settings["frames"])
        if not 1 <= self._frames <= 16:
            raise InvalidStateError(f"there cannot be {self._frames} frames")
        self._reduced = settings["actions"] == "reduced"
        self._mask = str(settings["mask"])
        parts: dict[str, Callable[[], Floats]] = {}
        if settings["scan_memory"]:
            parts["scans"] = self._scan_part
        if settings["decoy_memory"] != "none":
            full = settings["decoy_memory"] == "full"
            parts["decoys"] = self._decoy_part if full else self._decoy_count_part
        if settings["event_memory"]:
            parts["events"] = self._event_part
        if settings["restore_memory"]:
            parts["restores"] = lambda: self._restored.astype(np.float32)
        if settings["clock"]:
            parts["clock"] = self._clock_part
        self._parts = parts
        self.restart(0)

    @property
    def is_needed(self) -> bool:
        """Whether observations, masks or actions differ from the raw ones."""
        more = self._frames > 1 or self._reduced or self._mask != "none"
        return more or bool(self._parts)

    def restart(self, count: int) -> None:
        """Begin `count` episodes."""
        shape = (count, s.NUM_HOSTS)
        self._steps = -1
        self._history: list[Floats] = [np.zeros((count, _BITS), np.float32)] * self._frames
        self._seen = np.zeros(shape, np.bool_)
        self._last = np.zeros(shape, np.bool_)
        self._event_step = np.zeros(shape, np.int64)
        self._restored = np.zeros(shape, np.bool_)
        self._up = np.zeros((*shape, _NUM_DECOYS), np.bool_)
        self._action: Ints | None = None

    def see(self, raw: Floats) -> Floats:
        """The observations (N, M) of the environment, from the bits (N, 52) of the next step."""
        self._apply_action()
        self._steps += 1
        # A copy, because environments reuse their buffers.
        self._history = [raw.copy(), *self._history[:-1]]
        bits = raw.reshape(len(raw), s.NUM_HOSTS, 4) > 0.5
        active = bits[:, :, 0]
        scanned = active & ~bits[:, :, 1]
        self._seen |= scanned
        # All scans of the last step that has any: blue cannot know which of them was red's.
        some = scanned.any(axis=1)
        self._last[some] = scanned[some]
        self._event_step[active] = self._steps
        parts = [part() for part in self._parts.values()]
        return np.concatenate([*self._history, *parts], axis=1)

    def mask(self) -> Bools | None:
        """The legal actions (N, A) of the environment; None if it has no mask."""
        if self._mask == "none":
            return None
        up = self._up if self._mask == "useful" else np.zeros_like(self._up)
        can = _open(up)
        if self._reduced:
            return self._reduced_mask(can & ~up)
        mask = np.ones((len(up), len(s.ACTION_NAMES)), np.bool_)
        # Actions are ordered by decoy, then by host.
        mask[:, _FIRST_DECOY:_FIRST_RESTORE] = can.transpose(0, 2, 1).reshape(len(up), -1)
        return mask

    def act(self, action: Array) -> Array:
        """Note actions (N,) of the environment; returns them as indices of all 145."""
        if self._reduced:
            action = np.array([self._full(row, int(a)) for row, a in enumerate(action)], np.int64)
        self.replace(action)
        return action

    def replace(self, action: Array) -> None:
        """Note actions (N,) of all 145."""
        found = action.astype(np.int64)
        if ((found < 0) | (found >= len(s.ACTION_NAMES))).any():
            raise InvalidStateError(f"actions are 0 to {len(s.ACTION_NAMES) - 1}")
        self._action = found

    def _apply_action(self) -> None:
        """Remember what the last actions did."""
        if self._action is None:
            return
        kind, host = np.divmod(self._action - 2, s.NUM_HOSTS)
        for row in np.flatnonzero(kind >= 2):
            if self._action[row] >= _FIRST_RESTORE:
                self._up[row, host[row]] = False
                self._restored[row, host[row]] = True
            else:
                decoy = kind[row] - 2
                self._up[row, host[row], decoy] |= _open(self._up[row])[host[row], decoy]
        self._action = None

    def _full(self, row: int, action: int) -> int:
        kind, _, host = s.REDUCED_NAMES[action].partition(" ")
        if kind != "Decoy":
            return s.ACTION_NAMES.index(s.REDUCED_NAMES[action])
        at = s.HOST_NAMES.index(host)
        up = self._up[row]
        possible = _open(up)[at] & ~up[at]
        for name in s.BEST_DECOYS[host]:
            if possible[s.DECOY_NAMES.index(name)]:
                return s.ACTION_NAMES.index(f"Decoy{name} {host}")
        return s.MONITOR

    def _reduced_mask(self, possible: Bools) -> Bools:
        mask = np.ones((len(possible), len(s.REDUCED_NAMES)), np.bool_)
        for host, names in s.BEST_DECOYS.items():
            decoys = [s.DECOY_NAMES.index(name) for name in names]
            place = s.REDUCED_NAMES.index(f"Decoy {host}")
            mask[:, place] = possible[:, s.HOST_NAMES.index(host), decoys].any(axis=1)
        return mask

    def _scan_part(self) -> Floats:
        return np.float32(0.5) * (self._seen.astype(np.float32) + self._last)

    def _decoy_part(self) -> Floats:
        return self._up.reshape(len(self._up), -1).astype(np.float32)

    def _decoy_count_part(self) -> Floats:
        fraction: Floats = self._up.sum(axis=2, dtype=np.float32) / _FITS.sum(axis=1).astype("f4")
        return fraction

    def _event_part(self) -> Floats:
        age = (self._steps - self._event_step + 1).astype(np.float32)
        return np.where(self._event_step > 0, np.float32(1) / age, np.float32(0))

    def _clock_part(self) -> Floats:
        hundreds = min(np.float32(self._steps) / np.float32(100), np.float32(1))
        return np.full((len(self._up), 1), hundreds, np.float32)


def _open(up: Bools) -> Bools:
    """Decoys (..., 13, 8) that would succeed where those of `up` are up already."""
    blocked = (up[..., :, None] & _BLOCKS).any(axis=-2)
    possible: Bools = _FITS & ~blocked
    return possible
