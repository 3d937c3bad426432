"""Exploration: how random actions are mixed into greedy ones, for a whole batch in one draw."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from briskrl.algos.dqn.kernels.act import mix_random_actions
from briskrl.algos.kernels.sampling import mix_random_subsets
from briskrl.core.types import Bools, Ints


def linear(start: float, end: float, steps: int, now: int) -> float:
    """A value that goes from `start` to `end` over `steps` and stays there."""
    return start + (end - start) * min(1.0, now / steps)


class EpsilonGreedy:
    """Random legal actions for a share epsilon of the environments."""

    def __init__(self, num_actions: int, rng: np.random.Generator) -> None:
        self._num_actions = num_actions
        self._rng = rng
        self._draws = np.zeros((2, 0))
        self._no_mask = np.zeros((0, 0), np.bool_)

    def draw(self, count: int) -> NDArray[np.float64]:
        """New numbers (2, N) for `mix_random_actions`, valid until the next call."""
        if self._draws.shape[1] != count:
            self._draws = np.zeros((2, count))
        self._rng.random(out=self._draws)
        return self._draws

    def mix(self, greedy: Ints, mask: Bools | None, epsilon: float, out: Ints) -> None:
        """Write (N,) actions: greedy ones, random legal ones for a share epsilon."""
        draws = self.draw(len(greedy))
        legal = self._no_mask if mask is None else mask
        mix_random_actions(greedy, draws, epsilon, self._num_actions, legal, out)


class SubsetEpsilonGreedy(EpsilonGreedy):
    """The same for k actions at once: each of them is random with chance epsilon."""

    def __init__(self, num_actions: int, taken: int, rng: np.random.Generator) -> None:
        super().__init__(num_actions, rng)
        self._several = np.zeros((2, 0, taken))
        self._available = np.zeros(num_actions, np.bool_)

    def mix(self, greedy: Ints, mask: Bools | None, epsilon: float, out: Ints) -> None:
        """Write (N, k) actions: greedy ones, a share epsilon replaced by random legal ones."""
        if self._several.shape[1] != len(greedy):
            self._several = np.zeros((2, *greedy.shape))
        self._rng.random(out=self._several)
        legal = self._no_mask if mask is None else mask
        mix_random_subsets(greedy, self._several, epsilon, legal, self._available, out)
