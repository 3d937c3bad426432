"""From rollouts to what learning needs: values, importance weights, advantages, returns.

Networks are evaluated in chunks of bounded size, whatever the rollout's.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

import numpy as np
import torch
from torch import Tensor

from briskrl.algos.distributions import Distribution
from briskrl.algos.kernels import estimate_advantages, weigh_steps
from briskrl.core.types import Array, Bools, Floats, Rollout
from briskrl.nets.compute import Compute

MAX_ROWS, MAX_ELEMENTS = 4096, 1 << 21
"""Observations per forward pass and numbers in them: enough to fill the cores, and few enough that
the activations of large images fit into memory."""

Network = Callable[[Tensor], Tensor]


class Appraiser:
    """Fills in what a rollout is worth, given functions that evaluate the current networks."""

    def __init__(
        self,
        policy: Network,
        values: Network,
        distribution: Distribution,
        compute: Compute,
        *,
        obs_size: int,
        gamma: float,
        gae_lambda: float,
    ) -> None:
        self._policy = policy
        self._values = values
        self._distribution = distribution
        self._compute = compute
        self.chunk = max(1, min(MAX_ROWS, MAX_ELEMENTS // obs_size))
        self._settings = np.array([gamma, gae_lambda, 1.0, np.inf])
        self._final_value = np.zeros((0, 0), np.float32)

    def scale_rewards(self, factor: float, limit: float) -> None:
        """Multiply rewards by a factor, and clip them to +-limit, from now on."""
        self._settings[2:] = factor, limit

    @torch.inference_mode()
    def appraise(self, rollout: Rollout) -> None:
        """Write values, anchors, weights, advantages and returns of a rollout."""
        steps = len(rollout.reward) - 1
        self._evaluate(_flat(rollout.obs), rollout.value.reshape(-1))
        if rollout.age == 0:
            np.copyto(rollout.anchor, rollout.log_prob)
            rollout.weight.fill(1)
        else:
            self._log_probs(rollout, steps)
            weigh_steps(rollout.log_prob[:steps], rollout.anchor[:steps], rollout.weight[:steps])
        estimate_advantages(
            rollout.reward,
            rollout.value,
            self._final_values(rollout, steps),
            rollout.terminated,
            rollout.truncated,
            rollout.weight,
            self._settings,
            rollout.advantage,
            rollout.ret,
        )

    def _evaluate(self, obs: Array, out: Floats) -> None:
        """Write the values (M,) of observations (M, *obs)."""
        for rows in self._chunks(len(obs)):
            values = self._values(self._compute.tensor(obs[rows]))
            out[rows] = values.squeeze(1).cpu().numpy()

    def _log_probs(self, rollout: Rollout, steps: int) -> None:
        """Write how likely the current policy is to act as recorded."""
        obs, action = _flat(rollout.obs[:steps]), _flat(rollout.action[:steps])
        mask: Bools | None = None if rollout.mask is None else _flat(rollout.mask[:steps])
        anchor = rollout.anchor[:steps].reshape(-1)
        tensor = self._compute.tensor
        for rows in self._chunks(len(obs)):
            out = self._policy(tensor(obs[rows]))
            legal = None if mask is None else tensor(mask[rows])
            log_prob, _ = self._distribution.evaluate(out, tensor(action[rows]), legal)
            anchor[rows] = log_prob.cpu().numpy()

    def _final_values(self, rollout: Rollout, steps: int) -> Floats:
        """(T + 1, N) values of last observations where time ran out; anything elsewhere."""
        if self._final_value.shape != rollout.value.shape:
            self._final_value = np.zeros(rollout.value.shape, np.float32)
        cut = np.flatnonzero(rollout.truncated[:steps] & ~rollout.terminated[:steps])
        final_obs, final_value = _flat(rollout.final_obs), self._final_value.reshape(-1)
        for rows in self._chunks(len(cut)):
            values = self._values(self._compute.tensor(final_obs[cut[rows]]))
            final_value[cut[rows]] = values.squeeze(1).cpu().numpy()
        return self._final_value

    def _chunks(self, count: int) -> Iterator[slice]:
        for begin in range(0, count, self.chunk):
            yield slice(begin, min(count, begin + self.chunk))


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
