"""Values, importance weights, advantages and returns of rollouts."""

from __future__ import annotations

import numpy as np

from briskrl.algos.ppo.engine import PPOEngine
from briskrl.algos.ppo.kernels.gae import gae, importance_weights
from briskrl.core.types import Array, Bools, Floats, Rollout

ROWS_PER_PASS = 4096
"""Final observations of truncated episodes that are copied and evaluated at once."""


class AdvantageEstimator:
    """Computes advantages and returns of rollouts with the current network (GAE and V-trace).

    The recursion itself is `kernels/gae.py`.
    """

    def __init__(self, *, gamma: float, gae_lambda: float) -> None:
        self._settings = np.array([gamma, gae_lambda, 1.0, np.inf])
        self._final_value = np.zeros((0, 0), np.float32)

    def scale_rewards(self, factor: float, limit: float) -> None:
        """Multiply rewards by `factor` and clip them to +-limit, in all following calls."""
        self._settings[2:] = factor, limit

    def estimate(self, rollout: Rollout, engine: PPOEngine) -> None:
        """Fill in a rollout's value, old_log_prob, weight, advantage and returns.

        The old policy of the PPO ratio is the current one. A rollout that it has just collected
        needs no forward pass for that; an older one does, and gets importance weights.
        """
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
        """Values (T + 1, N) of final observations of truncated episodes; arbitrary elsewhere."""
        if self._final_value.shape != rollout.value.shape:
            self._final_value = np.zeros(rollout.value.shape, np.float32)
        truncated = np.flatnonzero(rollout.truncated[:steps] & ~rollout.terminated[:steps])
        final_obs, final_value = _flat(rollout.final_obs), self._final_value.reshape(-1)
        for begin in range(0, len(truncated), ROWS_PER_PASS):
            rows = truncated[begin : begin + ROWS_PER_PASS]
            values = np.zeros(len(rows), np.float32)
            engine.values(final_obs[rows], values)
            final_value[rows] = values
        return self._final_value


def explained_variance(rollout: Rollout) -> float:
    """1 - Var(returns - value) / Var(returns): 1 for a perfect critic, 0 for a constant one."""
    steps = len(rollout.reward) - 1
    returns = rollout.returns[:steps]
    variance = float(returns.var(dtype=np.float64))
    if variance == 0:
        return 0.0
    return 1 - float((returns - rollout.value[:steps]).var(dtype=np.float64)) / variance


def _flat(array: Array) -> Array:
    """(T, N, ...) as (T * N, ...), a view of contiguous memory."""
    return array.reshape(-1, *array.shape[2:])
