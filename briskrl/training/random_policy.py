"""A player that takes every legal action with equal probability."""

from __future__ import annotations

from typing import Any

import numpy as np

from briskrl.core.rng import Streams
from briskrl.core.spec import ActionSpec, BoxSpec, DiscreteSpec, EnvSpec, MultiDiscreteSpec
from briskrl.core.types import Array, Bools
from briskrl.envs.make import make_env


class RandomPolicy:
    """Takes every legal action with equal probability.

    Args:
        action: The actions.
        seed: Equal seeds give equal actions.
    """

    restart = None

    def __init__(self, action: ActionSpec, seed: int) -> None:
        self._action = action
        self._rng = Streams(seed)["random player"]

    @classmethod
    def of_env(cls, env: str, config: Any, seed: int) -> RandomPolicy:
        """The random player of an environment."""
        probe = make_env(env, 1, config=config, hold_ended=True)
        action = probe.env_spec.action
        probe.close()
        return cls(action, seed)

    def fitted(self, spec: EnvSpec) -> RandomPolicy:
        """Itself: a random player fits every environment of the same action space."""
        return self

    def act(self, obs: Array, mask: Bools | None) -> Array:
        """Actions (N,) or (N, D) for observations (N, *obs)."""
        action, count = self._action, len(obs)
        if isinstance(action, BoxSpec):
            # There is no uniform distribution without bounds; a few units are as good as any.
            low, high = max(action.low, -10.0), min(action.high, 10.0)
            return self._rng.uniform(low, high, (count, *action.shape)).astype(np.float32)
        if isinstance(action, MultiDiscreteSpec):
            return self._rng.integers(0, action.nvec, (count, len(action.nvec)))
        if mask is None and isinstance(action, DiscreteSpec):
            return self._rng.integers(0, action.n, count)
        legal = np.ones((count, action.n), np.bool_) if mask is None else mask
        # If a row has no legal action, any may be taken.
        legal = np.where(legal.any(1, keepdims=True), legal, True)
        weights = self._rng.random(legal.shape) * legal
        if isinstance(action, DiscreteSpec):
            best: Array = weights.argmax(1)
            return best
        order = np.argsort(-weights, axis=1)[:, : action.k]
        several: Array = np.full((count, action.k), -1)
        several[:, : order.shape[1]] = np.where(np.take_along_axis(legal, order, axis=1), order, -1)
        return several
