"""From rollouts to what learning needs: values, importance weights, advantages, returns."""

from __future__ import annotations

import numpy as np

from briskrl.algos.ppo.engine import PPOEngine
from briskrl.algos.ppo.kernels.gae import gae, importance_weights
from briskrl.core.types import Array, Bools, Floats, Rollout

ROWS_PER_PASS = 4096
"""Last observations of truncated episodes that are copied to be looked at together."""


class AdvantageEstimator:
    """Fills in what a rollout is worth, by what an engine says of the current network."""

    def __init__(self, *, gamma: float, gae_lambda: float) -> None:
        self._settings = np.array([gamma, gae_lambda, 1.0, np.inf])
        self._final_value = np.zeros((0, 0), np.float32)

    def scale_rewards(self, factor: float, limit: float) -> None:
        """Multiply rewards by a factor, and clip them to +-limit, from now on."""
        self._settings[2:] = factor, limit

    def estimate(self, rollout: Rollout, engine: PPOEngine) -> None:
        """Write values, anchors, weights, advantages and returns of a rollout."""
        steps = len(rollout.reward) - 1
        engine.values(_flat(rollout.obs), rollout.value.reshape(-1))
        if rollout.age == 0:
            np.copyto(rollout.old_log_prob, rollout.behavior_log_prob)
            rollout.weight.fill(1)
        else:
            mask: Bools | None = None if rollout.mask is None else _flat(rollout.mask[:steps])
            obs, action = _flat(rollout.obs[:steps]), _flat(rollout.action[:steps])
            engine.log_probs(obs, action, mask, rollout.old_log_prob[:steps].reshape(-1))
            importance_weights(
                rollout.behavior_log_prob[:steps],
                rollout.old_log_prob[:steps],
                rollout.weight[:steps],
            )
        gae(
            rollout.reward,
            rollout.value,
            self._final_values(rollout, steps, engine),
            rollout.terminated,
            rollout.truncated,
            rollout.weight,
            self._settings,
            rollout.advantage,
            rollout.returns,
        )

    def _final_values(self, rollout: Rollout, steps: int, engine: PPOEngine) -> Floats:
        """(T + 1, N) values of last observations where time ran out; anything elsewhere."""
        if self._final_value.shape != rollout.value.shape:
            self._final_value = np.zeros(rollout.value.shape, np.float32)
        cut = np.flatnonzero(rollout.truncated[:steps] & ~rollout.terminated[:steps])
        final_obs, final_value = _flat(rollout.final_obs), self._final_value.reshape(-1)
        for begin in range(0, len(cut), ROWS_PER_PASS):
            some = cut[begin : begin + ROWS_PER_PASS]
            values = np.zeros(len(some), np.float32)
            engine.values(final_obs[some], values)
            final_value[some] = values
        return self._final_value


def explained_variance(rollout: Rollout) -> float:
    """How much of the returns' variance the values foresaw: 1 all, 0 no more than a constant."""
    steps = len(rollout.reward) - 1
    returns = rollout.returns[:steps]
    variance = float(returns.var(dtype=np.float64))
    if variance == 0:
        return 0.0
    return 1 - float((returns - rollout.value[:steps]).var(dtype=np.float64)) / variance


def _flat(array: Array) -> Array:
    """(T, N, ...) as (T * N, ...), a view of contiguous memory."""
    return array.reshape(-1, *array.shape[2:])
