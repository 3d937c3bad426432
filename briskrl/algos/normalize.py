"""Running statistics for the normalization of observations and rewards; saved with a run."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from briskrl.algos.kernels.moments import add_returns, add_rows, merge_moments
from briskrl.core.state_checks import check_range, loaded_finite
from briskrl.core.types import Array, Rollout
from briskrl.nets.replica_group import ReplicaGroup

Doubles = NDArray[np.float64]

_EPSILON = 1e-8
"""Keeps the standard deviation of constants above 0."""


class RunningMoments:
    """Mean and standard deviation (float64) of every element of the observations so far.

    Args:
        size: Elements of an observation.
        group: Replicas, whose observations count, too.
    """

    def __init__(self, size: int, group: ReplicaGroup | None = None) -> None:
        self._group = group
        self.count = np.zeros(())
        self.mean = np.zeros(size)
        self.squares = np.zeros(size)

    def add(self, rows: Array) -> None:
        """Add observations (M, *obs)."""
        rows = rows.reshape(len(rows), -1)
        if self._group is not None:
            self._add_all(rows, self._group)
            return
        add_rows(rows, float(self.count), self.mean, self.squares)
        self.count += len(rows)

    def _add_all(self, rows: Array, group: ReplicaGroup) -> None:
        """Add the observations (M, F) of all replicas."""
        own = np.zeros((len(self.mean), 3))
        mean, squares = np.zeros_like(self.mean), np.zeros_like(self.squares)
        add_rows(rows, 0.0, mean, squares)
        own[:, 0], own[:, 1], own[:, 2] = len(rows), mean, squares
        total = np.stack([np.full_like(self.mean, self.count), self.mean, self.squares], axis=1)
        merge_moments(total, group.gather(own))
        self.count[...] = total[0, 0]
        self.mean[:], self.squares[:] = total[:, 1], total[:, 2]

    @property
    def deviation(self) -> Doubles:
        """Standard deviation (size,); ones before the first observation."""
        if self.count == 0:
            return np.ones_like(self.mean)
        deviation: Doubles = np.sqrt(self.squares / self.count + _EPSILON)
        return deviation

    def arrays(self) -> dict[str, Array]:
        """Copies of the statistics, saved with the policy."""
        return {f"obs.{name}": value.copy() for name, value in self._named().items()}

    def load(self, arrays: dict[str, Array]) -> None:
        """Restore what `arrays` returned.

        Raises:
            InvalidStateError: They are of other observations, or impossible.
        """
        for name, value in self._named().items():
            found = loaded_finite(arrays, f"obs.{name}", value)
            if name != "mean":
                check_range(f"obs.{name}", found, 0, np.inf)
            value[...] = found

    def _named(self) -> dict[str, Doubles]:
        return {"count": self.count, "mean": self.mean, "squares": self.squares}


class RewardScale:
    """One over the running standard deviation of the discounted return, as in most PPO results.

    Rewards are not centered: that would change which policy is optimal.

    Args:
        gamma: Discount factor.
        group: Replicas, whose rewards count, too.
    """

    LIMIT = 10.0
    """Scaled rewards are clipped to +-LIMIT."""

    def __init__(self, gamma: float, group: ReplicaGroup | None = None) -> None:
        self._gamma = gamma
        self._group = group
        self._returns = np.zeros(0)
        self._moments = np.zeros(3)

    def add(self, rollout: Rollout) -> None:
        """Add a rollout that directly follows the one before."""
        steps, num_envs = len(rollout.reward) - 1, rollout.reward.shape[1]
        if len(self._returns) != num_envs:
            self._returns = np.zeros(num_envs)
        moments = self._moments if self._group is None else np.zeros(3)
        add_returns(
            rollout.reward[:steps],
            rollout.terminated[:steps],
            rollout.truncated[:steps],
            self._gamma,
            self._returns,
            moments,
        )
        if self._group is not None:
            merge_moments(self._moments[None], self._group.gather(moments)[:, None])

    @property
    def factor(self) -> float:
        """The factor for rewards."""
        count, _, squares = self._moments
        return float(1 / np.sqrt(squares / count + _EPSILON)) if count else 1.0

    def arrays(self) -> dict[str, Array]:
        """Copies of the statistics."""
        return {"reward.returns": self._returns.copy(), "reward.moments": self._moments.copy()}

    def load(self, arrays: dict[str, Array]) -> None:
        """Restore what `arrays` returned.

        Raises:
            InvalidStateError: They are impossible.
        """
        returns = arrays.get("reward.returns", self._returns)
        # Empty before the first rollout, then one per environment.
        like = np.zeros(len(returns) if returns.ndim == 1 else 0)
        returns = loaded_finite(arrays, "reward.returns", like)
        moments = loaded_finite(arrays, "reward.moments", self._moments)
        count, _, squares = moments
        check_range("reward.moments", np.array([count, squares]), 0, np.inf)
        self._returns = returns.copy()
        self._moments[...] = moments
