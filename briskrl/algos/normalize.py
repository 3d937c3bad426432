"""Running statistics that observations and rewards are scaled by; all of them are saved."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from briskrl.algos.kernels.moments import add_returns, add_rows
from briskrl.core.types import Array, Rollout

Doubles = NDArray[np.float64]

_EPSILON = 1e-8
"""Keeps the deviation of what never varied above 0."""


class RunningMoments:
    """Mean and deviation of every element of the observations seen so far, in float64."""

    def __init__(self, size: int) -> None:
        self.count = np.zeros(())
        self.mean = np.zeros(size)
        self.squares = np.zeros(size)

    def add(self, rows: Array) -> None:
        """Take in rows (M, *obs)."""
        add_rows(rows.reshape(len(rows), -1), float(self.count), self.mean, self.squares)
        self.count += len(rows)

    @property
    def deviation(self) -> Doubles:
        """(size,); ones before anything was seen."""
        if self.count == 0:
            return np.ones_like(self.mean)
        deviation: Doubles = np.sqrt(self.squares / self.count + _EPSILON)
        return deviation

    def arrays(self) -> dict[str, Array]:
        """Copies of the state, to be saved with the policy."""
        return {f"obs.{name}": value.copy() for name, value in self._named().items()}

    def load(self, arrays: dict[str, Array]) -> None:
        """Continue from what `arrays` gave."""
        for name, value in self._named().items():
            value[...] = arrays[f"obs.{name}"]

    def _named(self) -> dict[str, Doubles]:
        return {"count": self.count, "mean": self.mean, "squares": self.squares}


class RewardScale:
    """One over the running deviation of the discounted return, as in most PPO results.

    Rewards are not centred: that would change which policy is best.
    """

    LIMIT = 10.0
    """Scaled rewards are clipped here."""

    def __init__(self, gamma: float) -> None:
        self._gamma = gamma
        self._returns = np.zeros(0)
        self._moments = np.zeros(3)

    def add(self, rollout: Rollout) -> None:
        """Take in a rollout that follows the one before without a gap."""
        steps, num_envs = len(rollout.reward) - 1, rollout.reward.shape[1]
        if len(self._returns) != num_envs:
            self._returns = np.zeros(num_envs)
        add_returns(
            rollout.reward[:steps],
            rollout.terminated[:steps],
            rollout.truncated[:steps],
            self._gamma,
            self._returns,
            self._moments,
        )

    @property
    def factor(self) -> float:
        """What rewards are to be multiplied by."""
        count, _, squares = self._moments
        return float(1 / np.sqrt(squares / count + _EPSILON)) if count else 1.0

    def arrays(self) -> dict[str, Array]:
        """Copies of the state."""
        return {"reward.returns": self._returns.copy(), "reward.moments": self._moments.copy()}

    def load(self, arrays: dict[str, Array]) -> None:
        """Continue from what `arrays` gave."""
        self._returns = arrays["reward.returns"].copy()
        self._moments[...] = arrays["reward.moments"]
