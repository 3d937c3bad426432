"""CartPole in plain Python: one cart with its own random numbers."""

from __future__ import annotations

import math
from dataclasses import dataclass, field

import numpy as np

OFF_TRACK, FALLEN, STEP_LIMIT = 1, 2, 3
WORD = 2**64 - 1


def mixed(z: int) -> int:
    """The output function of SplitMix64."""
    z = ((z ^ (z >> 30)) * 0xBF58476D1CE4E5B9) & WORD
    z = ((z ^ (z >> 27)) * 0x94D049BB133111EB) & WORD
    return z ^ (z >> 31)


@dataclass
class Cart:
    """One cart that starts again by itself when `begin` is called."""

    seed: int
    max_steps: int = 500
    state: list[float] = field(default_factory=list)
    steps: int = 0

    def __post_init__(self) -> None:
        self.random_state = mixed((self.seed + 0x9E3779B97F4A7C15) & WORD)
        self.begin()

    def begin(self) -> None:
        self.state = [-0.05 + 0.1 * self._real() for _ in range(4)]
        self.steps = 0

    def _real(self) -> float:
        self.random_state = (self.random_state + 0x9E3779B97F4A7C15) & WORD
        return (mixed(self.random_state) >> 11) / 2**53

    def step(self, action: int) -> int:
        """Take one step; returns the cause of the end, or 0."""
        x, speed, angle, spin = self.state
        force = 10.0 if action == 1 else -10.0
        thrust = (force + 0.05 * spin**2 * math.sin(angle)) / 1.1
        turn = (9.8 * math.sin(angle) - math.cos(angle) * thrust) / (
            0.5 * (4 / 3 - 0.1 * math.cos(angle) ** 2 / 1.1)
        )
        pull = thrust - 0.05 * turn * math.cos(angle) / 1.1
        self.state = [
            x + 0.02 * speed,
            speed + 0.02 * pull,
            angle + 0.02 * spin,
            spin + 0.02 * turn,
        ]
        self.steps += 1
        if abs(self.state[0]) > 2.4:
            return OFF_TRACK
        if abs(self.state[2]) > math.radians(12):
            return FALLEN
        return STEP_LIMIT if self.steps >= self.max_steps > 0 else 0

    def observe(self) -> np.ndarray:
        return np.array(self.state, np.float32)
