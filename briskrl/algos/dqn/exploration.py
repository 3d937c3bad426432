"""Epsilon-greedy exploration for a batch of environments."""

from __future__ import annotations

from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from briskrl.algos.dqn.kernels.act import mix_random_actions
from briskrl.algos.kernels.sampling import mix_random_subsets
from briskrl.core.counters import Counters
from briskrl.core.types import Bools, Ints


def linear(start: float, end: float, steps: int, now: int) -> float:
    """A linear schedule: from `start` to `end` over `steps` steps, then constant."""
    return start + (end - start) * min(1.0, now / steps)


class EpsilonSchedule(Protocol):
    """The settings of a schedule of epsilon."""

    @property
    def epsilon_start(self) -> float:
        """Epsilon at the first step."""
        ...

    @property
    def epsilon_end(self) -> float:
        """Epsilon after the decay."""
        ...

    @property
    def epsilon_steps(self) -> int:
        """Transitions of the decay; 0 for a share of the budget."""
        ...

    @property
    def exploration_fraction(self) -> float:
        """That share."""
        ...


def epsilon_of(schedule: EpsilonSchedule, counters: Counters) -> float:
    """The present probability of a random action: linear, then constant."""
    start, end, steps = schedule.epsilon_start, schedule.epsilon_end, schedule.epsilon_steps
    if steps > 0:
        return linear(start, end, steps, counters.env_steps)
    return start + (end - start) * min(1.0, counters.fraction / schedule.exploration_fraction)


class EpsilonGreedy:
    """Replaces greedy actions by random legal ones with probability epsilon."""

    def __init__(self, num_actions: int, rng: np.random.Generator) -> None:
        self._num_actions = num_actions
        self._rng = rng
        self._draws = np.zeros((2, 0))
        self._no_mask = np.zeros((0, 0), np.bool_)

    def draw(self, count: int) -> NDArray[np.float64]:
        """Uniform numbers (2, N) for `mix_random_actions`, valid until the next call."""
        if self._draws.shape[1] != count:
            self._draws = np.zeros((2, count))
        self._rng.random(out=self._draws)
        return self._draws

    def mix(self, greedy: Ints, mask: Bools | None, epsilon: float, out: Ints) -> None:
        """Write actions (N,): greedy ones, or with probability epsilon random legal ones."""
        draws = self.draw(len(greedy))
        legal = self._no_mask if mask is None else mask
        mix_random_actions(greedy, draws, epsilon, self._num_actions, legal, out)


class SubsetEpsilonGreedy(EpsilonGreedy):
    """Epsilon-greedy for k actions at once; each is random with probability epsilon."""

    def __init__(self, num_actions: int, taken: int, rng: np.random.Generator) -> None:
        super().__init__(num_actions, rng)
        self._subset_draws = np.zeros((2, 0, taken))
        self._available = np.zeros(num_actions, np.bool_)

    def mix(self, greedy: Ints, mask: Bools | None, epsilon: float, out: Ints) -> None:
        """Write actions (N, k): greedy ones, or with probability epsilon random legal ones."""
        if self._subset_draws.shape[1] != len(greedy):
            self._subset_draws = np.zeros((2, *greedy.shape))
        self._rng.random(out=self._subset_draws)
        legal = self._no_mask if mask is None else mask
        mix_random_subsets(greedy, self._subset_draws, epsilon, legal, self._available, out)
