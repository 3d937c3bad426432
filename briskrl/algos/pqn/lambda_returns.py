"""Lambda-returns of rollouts under the current Q-network (Gallici 2025, section 4; Peng 1996).

The return of step t mixes all n-step returns of the rollout, each bootstrapped by the highest
Q-value:

    R[t] = r[t] + gamma * ((1 - lambda) * max Q(s[t + 1]) + lambda * R[t + 1])

The last step bootstraps from its next observation. A terminal state is worth 0. A truncated episode
bootstraps from its final observation, and nothing of the next episode enters. With V = max Q this
is the lambda-return of GAE, so the recursion is `ppo/kernels/gae.py`.
"""

from __future__ import annotations

import numpy as np

from briskrl.algos.ppo.gae import ROWS_PER_PASS
from briskrl.algos.ppo.kernels.gae import gae
from briskrl.algos.pqn.engine import PQNEngine
from briskrl.core.types import Array, Bools, Floats, Rollout


class LambdaReturns:
    """Computes the returns of rollouts; see above."""

    def __init__(self, *, gamma: float, q_lambda: float) -> None:
        self._settings = np.array([gamma, q_lambda, 1.0, np.inf])
        self._final_value = np.zeros((0, 0), np.float32)

    def scale_rewards(self, factor: float, limit: float) -> None:
        """Multiply rewards by `factor` and clip them to +-limit, in all following calls."""
        self._settings[2:] = factor, limit

    def compute(self, rollout: Rollout, engine: PQNEngine) -> None:
        """Fill in a rollout's value and returns; its other arrays are left alone or overwritten."""
        mask = None if rollout.mask is None else _flat(rollout.mask)
        engine.values(_flat(rollout.obs), mask, rollout.value.reshape(-1))
        rollout.weight.fill(1)
        gae(
            rollout.reward,
            rollout.value,
            self._final_values(rollout, engine),
            rollout.terminated,
            rollout.truncated,
            rollout.weight,
            self._settings,
            rollout.advantage,
            rollout.returns,
        )

    def _final_values(self, rollout: Rollout, engine: PQNEngine) -> Floats:
        """Values (T + 1, N) of final observations of truncated episodes; arbitrary elsewhere."""
        if self._final_value.shape != rollout.value.shape:
            self._final_value = np.zeros(rollout.value.shape, np.float32)
        steps = len(rollout.reward) - 1
        truncated = np.flatnonzero(rollout.truncated[:steps] & ~rollout.terminated[:steps])
        final_obs, final_value = _flat(rollout.final_obs), self._final_value.reshape(-1)
        final_mask = None if rollout.final_mask is None else _flat(rollout.final_mask)
        for begin in range(0, len(truncated), ROWS_PER_PASS):
            rows = truncated[begin : begin + ROWS_PER_PASS]
            legal: Bools | None = None if final_mask is None else final_mask[rows]
            values = np.zeros(len(rows), np.float32)
            engine.values(final_obs[rows], legal, values)
            final_value[rows] = values
        return self._final_value


def _flat(array: Array) -> Array:
    """(T, N, ...) as (T * N, ...), a view of contiguous memory."""
    return array.reshape(-1, *array.shape[2:])
