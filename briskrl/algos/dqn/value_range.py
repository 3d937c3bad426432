"""The range of returns that a categorical distribution (C51) covers, found from the rewards.

A return is at most the largest reward at once, and from then on what the environment pays on
average, for ever: `max(r) + mean(max(r, 0)) / (1 - gamma)`. The same holds for the lowest return.
Rewards that are rare do not widen the range as `max(r) / (1 - gamma)` would.

A better policy earns more, so the range grows while it learns, never shrinks, and always to a
little more than is needed: when it changes, the atoms stand for other returns, and the network has
to learn its outputs again. Which action is best does not depend on the range.
"""

from __future__ import annotations

import math
from typing import Literal

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from briskrl.algos.dqn.config import DQNConfig
from briskrl.core.errors import InvalidStateError
from briskrl.core.state_checks import loaded_finite
from briskrl.core.types import Array, Batch
from briskrl.nets.replica_group import ReplicaGroup

Ends = tuple[float | Literal["auto"], float | Literal["auto"]]

RANGE = "range.ends"
"""Name of the ends of the range among the arrays of a policy."""
REWARDS = "range.rewards"
"""Name of what is known of the rewards, among the arrays of the optimizer."""
START = (-1.0, 1.0)
"""The range until a reward other than 0 has been seen."""
MARGIN = 0.25
"""By how much of its width the range grows beyond what is needed."""
MEMORY = 10_000
"""Rewards over which means are taken, about."""
LONGEST = 1000.0
"""Steps over which rewards are added up at most, for discounts near 1."""

LOWEST, HIGHEST, LOSS, GAIN = range(4)
"""Rewards that are summed up: the lowest and highest so far, and the recent means of negative and
positive parts."""


class ValueRange:
    """Widens the support of a return distribution where rewards call for it.

    Args:
        config: Settings; an end of the range that is a number stays.
        support: (Z,) returns of the atoms, written in place.
        group: Replicas, whose rewards count, too; they widen the range together, by `widen`.
    """

    def __init__(
        self, config: DQNConfig, support: Tensor, group: ReplicaGroup | None = None
    ) -> None:
        self._wanted: Ends = (config.v_min, config.v_max)
        discount = config.gamma**config.n_step
        self._horizon = min(LONGEST, 1 / max(1e-9, 1 - discount))
        self._support = support
        self._group = group
        self._rewards = np.zeros(4)
        self._range = np.array(ends_of(self._wanted))
        self._begun = False

    def see(self, batch: Batch, updates: int) -> bool:
        """Add the rewards of the first `updates` rows of a batch; returns whether it widened."""
        reward = batch.reward[:updates].astype(np.float64)
        share = 1 - np.exp(-reward.size / MEMORY) if self._rewards.any() else 1.0
        seen = self._rewards
        seen[LOWEST] = min(seen[LOWEST], reward.min())
        seen[HIGHEST] = max(seen[HIGHEST], reward.max())
        seen[LOSS] += (np.minimum(reward, 0).mean() - seen[LOSS]) * share
        seen[GAIN] += (np.maximum(reward, 0).mean() - seen[GAIN]) * share
        return self._group is None and self.widen()

    def widen(self) -> bool:
        """Widen the range to what the rewards so far need; returns whether it has changed."""
        if self._group is not None:
            self._rewards = of_all(self._group.gather(self._rewards))
        rewards = self._rewards
        low = rewards[LOWEST] + rewards[LOSS] * self._horizon
        high = rewards[HIGHEST] + rewards[GAIN] * self._horizon
        if not (math.isfinite(low) and math.isfinite(high)) or low == high:
            return False
        return self._use(self._widened(low, high))

    def _widened(self, low: float, high: float) -> NDArray[np.float64]:
        """The ends of a range that covers low to high, and what it has covered so far."""
        old_low, old_high = self._range if self._begun else (math.inf, -math.inf)
        margin = MARGIN * (max(high, old_high) - min(low, old_low)) if self._begun else 0.0
        ends = (
            old_low if low >= old_low else low - margin,
            old_high if high <= old_high else high + margin,
        )
        return np.array([e if f == "auto" else f for e, f in zip(ends, self._wanted, strict=True)])

    def _use(self, ends: NDArray[np.float64]) -> bool:
        if np.array_equal(ends, self._range) or not ends[0] < ends[1]:
            return False
        self._range, self._begun = ends, True
        self._write()
        return True

    def _write(self) -> None:
        low, high = self._range.tolist()
        self._support.copy_(torch.linspace(low, high, len(self._support)))

    def used(self) -> dict[str, Array]:
        """A copy of the ends of the range, which a policy needs."""
        return {RANGE: self._range.copy()}

    def rewards(self) -> dict[str, Array]:
        """A copy of what is known of the rewards."""
        return {REWARDS: self._rewards.copy()}

    def load(self, used: dict[str, Array], rewards: dict[str, Array]) -> None:
        """Restore what `used` and `rewards` returned.

        Raises:
            InvalidStateError: They are impossible.
        """
        self._range = loaded_range(used)
        self._rewards = loaded_finite(rewards, REWARDS, self._rewards).copy()
        self._begun = not np.array_equal(self._range, ends_of(self._wanted))
        self._write()


def of_all(rewards: NDArray[np.float64]) -> NDArray[np.float64]:
    """What several replicas know of rewards (K, 4), as one."""
    together: NDArray[np.float64] = rewards.mean(axis=0)
    together[LOWEST], together[HIGHEST] = rewards[:, LOWEST].min(), rewards[:, HIGHEST].max()
    return together


def is_automatic(config: DQNConfig) -> bool:
    """Whether rewards decide at least one end of the range."""
    return config.categorical and "auto" in (config.v_min, config.v_max)


def first_support(config: DQNConfig, device: torch.device) -> Tensor | None:
    """The support (Z,) before any reward; None without a categorical distribution."""
    if not config.categorical:
        return None
    low, high = ends_of((config.v_min, config.v_max))
    return torch.linspace(low, high, config.atoms, device=device)


def ends_of(wanted: Ends) -> tuple[float, float]:
    """The ends of the range before any reward."""
    low, high = wanted
    if low == "auto" and high == "auto":
        return START
    if low == "auto":
        return float(high) - 1, float(high)
    return float(low), float(low) + 1 if high == "auto" else float(high)


def loaded_range(arrays: dict[str, Array]) -> NDArray[np.float64]:
    """The saved ends of a range.

    Raises:
        InvalidStateError: They are missing or not in order.
    """
    found: NDArray[np.float64] = loaded_finite(arrays, RANGE, np.zeros(2)).copy()
    if not found[0] < found[1]:
        raise InvalidStateError(f"{RANGE} must rise, not {found.tolist()}")
    return found
