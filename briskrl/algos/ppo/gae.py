"""From rollouts to what learning needs: values, importance weights, advantages, returns."""

from __future__ import annotations

import numpy as np

from briskrl.algos.ppo.engine import PolicyEngine
from briskrl.algos.ppo.kernels.gae import estimate_advantages, weigh_steps
from briskrl.core.types import Array, Bools, Floats, Rollout

CUT_AT_ONCE = 4096
"""Last observations of truncated episodes that are copied to be looked at together."""


class Appraiser:
    """Fills in what a rollout is worth, by what an engine says of the current network."""

    def __init__(self, *, gamma: float, gae_lambda: float) -> None:
        self._settings = np.array([gamma, gae_lambda, 1.0, np.inf])
        self._final_value = np.zeros((0, 0), np.float32)

    def scale_rewards(self, factor: float, limit: float) -> None:
        """Multiply rewards by a factor, and clip them to +-limit, from now on."""
        self._settings[2:] = factor, limit

    def appraise(self, rollout: Rollout, engine: PolicyEngine) -> None:
        """Write values, anchors, weights, advantages and returns of a rollout."""
        steps = len(rollout.reward) - 1
        engine.values(_flat(rollout.obs), rollout.value.reshape(-1))
        if rollout.age == 0:
            np.copyto(rollout.anchor, rollout.log_prob)
            rollout.weight.fill(1)
        else:
            mask: Bools | None = None if rollout.mask is None else _flat(rollout.mask[:steps])
            obs, action = _flat(rollout.obs[:steps]), _flat(rollout.action[:steps])
            engine.log_probs(obs, action, mask, rollout.anchor[:steps].reshape(-1))
            weigh_steps(rollout.log_prob[:steps], rollout.anchor[:steps], rollout.weight[:steps])
        estimate_advantages(
            rollout.reward,
            rollout.value,
            self._final_values(rollout, steps, engine),
            rollout.terminated,
            rollout.truncated,
            rollout.weight,
            self._settings,
            rollout.advantage,
            rollout.ret,
        )

    def _final_values(self, rollout: Rollout, steps: int, engine: PolicyEngine) -> Floats:
        """(T + 1, N) values of last observations where time ran out; anything elsewhere."""
        if self._final_value.shape != rollout.value.shape:
            self._final_value = np.zeros(rollout.value.shape, np.float32)
        cut = np.flatnonzero(rollout.truncated[:steps] & ~rollout.terminated[:steps])
        final_obs, final_value = _flat(rollout.final_obs), self._final_value.reshape(-1)
        for begin in range(0, len(cut), CUT_AT_ONCE):
            some = cut[begin : begin + CUT_AT_ONCE]
            values = np.zeros(len(some), np.float32)
            engine.values(final_obs[some], values)
            final_value[some] = values
        return self._final_value


def explained_variance(rollout: Rollout) -> float:
    """How much of the returns' variance the values foresaw: 1 all, 0 no more than a constant."""
    steps = len(rollout.reward) - 1
    ret = rollout.ret[:steps]
    variance = float(ret.var(dtype=np.float64))
    if variance == 0:
        return 0.0
    return 1 - float((ret - rollout.value[:steps]).var(dtype=np.float64)) / variance


def _flat(array: Array) -> Array:
    """(T, N, ...) as (T * N, ...), a view of contiguous memory."""
    return array.reshape(-1, *array.shape[2:])
