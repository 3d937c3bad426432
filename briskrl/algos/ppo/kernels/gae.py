"""Generalized advantage estimation and importance weights."""

from __future__ import annotations

import math

from briskrl.compiler.jit import kernel
from briskrl.compiler.math import within
from briskrl.core.types import Array


@kernel
def gae(
    reward: Array,
    value: Array,
    final_value: Array,
    terminated: Array,
    truncated: Array,
    weight: Array,
    settings: Array,
    advantage: Array,
    returns: Array,
) -> None:
    """Generalized advantage estimation of steps whose policy may be an older one.

    V-trace (Espeholt 2018, equation 1, with lambda as in remark 2) corrects the value target of
    steps that another policy took by weights w = min(1, chance now / chance then):

        v[t] = V[t] + G[t],   G[t] = w[t] * (d[t] + gamma * lambda * G[t + 1])
        d[t] = r[t] + gamma * V[t + 1] - V[t]

    The advantage of the action at t is what the bracket holds: the action was taken, so its own
    weight belongs to the gradient (where `Minibatch.weight` multiplies it), not to its worth. Hence

        A[t] = d[t] + gamma * lambda * w[t + 1] * A[t + 1],   v[t] = V[t] + w[t] * A[t]

    which for weights of one is GAE (Schulman 2016, equation 16) and its lambda-return. V[t + 1] is
    0 where the task ended and the value of the episode's last observation where time ran out;
    either way nothing of the next episode enters.

    Args:
        reward: (T + 1, N), as are the others; row T of `value` is bootstrapped from.
        value: Estimates V of the observations acted on.
        final_value: Estimates of the last observations of truncated episodes; read there alone.
        terminated: Where tasks ended.
        truncated: Where time ran out.
        weight: Truncated importance weights w.
        settings: (4,) float64: gamma, lambda, what rewards are multiplied by and clipped to then.
        advantage: A, rows up to T written.
        returns: v, likewise.
    """
    gamma, lam, scale, limit = settings
    steps = value.shape[0] - 1
    num_envs = value.shape[1]
    for t in range(steps - 1, -1, -1):
        for n in range(num_envs):
            following = float(value[t + 1, n])
            carried = 0.0
            if t + 1 < steps:
                carried = float(weight[t + 1, n]) * advantage[t + 1, n]
            if terminated[t, n]:
                following, carried = 0.0, 0.0
            elif truncated[t, n]:
                following, carried = float(final_value[t, n]), 0.0
            scaled = within(-limit, reward[t, n] * scale, limit)
            result = scaled + gamma * (following + lam * carried) - value[t, n]
            advantage[t, n] = result
            returns[t, n] = value[t, n] + weight[t, n] * result


@kernel
def importance_weights(log_prob: Array, old_log_prob: Array, weight: Array) -> None:
    """Write min(1, exp(anchor - log_prob)) for T rows of N steps each into `weight`."""
    for t in range(weight.shape[0]):
        for n in range(weight.shape[1]):
            weight[t, n] = math.exp(min(0.0, float(old_log_prob[t, n]) - log_prob[t, n]))
