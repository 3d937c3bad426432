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
    """Generalized advantage estimation, with V-trace weights for steps of an older policy.

    V-trace (Espeholt 2018, equation 1, with lambda as in remark 2) corrects the value target of
    off-policy steps by truncated importance weights w = min(1, new prob / behavior prob):

        v[t] = V[t] + G[t],   G[t] = w[t] * (d[t] + gamma * lambda * G[t + 1])
        d[t] = r[t] + gamma * V[t + 1] - V[t]

    The advantage of the action at t is the bracket without w[t]: that weight belongs to the policy
    gradient, where `Minibatch.weight` multiplies it. Hence

        A[t] = d[t] + gamma * lambda * w[t + 1] * A[t + 1],   v[t] = V[t] + w[t] * A[t]

    which for weights of one is GAE (Schulman 2016, equation 16) and its lambda-return. V[t + 1] is
    0 where the episode terminated and the value of its final observation where it was truncated;
    in both cases nothing of the next episode enters.

    Args:
        reward: (T + 1, N), like the other arrays.
        value: Value estimates V of the observations; row T is bootstrapped from.
        final_value: Value estimates of final observations; read only where `truncated`.
        terminated: Whether the episode terminated at the step.
        truncated: Whether the episode was truncated at the step.
        weight: Truncated importance weights w.
        settings: (4,) float64: gamma, lambda, reward scale, and the limit that scaled rewards are
            clipped to.
        advantage: A, rows before T written.
        returns: v, rows before T written.
    """
    gamma, lam, scale, limit = settings
    steps = value.shape[0] - 1
    num_envs = value.shape[1]
    for t in range(steps - 1, -1, -1):
        for n in range(num_envs):
            next_value = float(value[t + 1, n])
            next_advantage = 0.0
            if t + 1 < steps:
                next_advantage = float(weight[t + 1, n]) * advantage[t + 1, n]
            if terminated[t, n]:
                next_value, next_advantage = 0.0, 0.0
            elif truncated[t, n]:
                next_value, next_advantage = float(final_value[t, n]), 0.0
            scaled = within(-limit, reward[t, n] * scale, limit)
            result = scaled + gamma * (next_value + lam * next_advantage) - value[t, n]
            advantage[t, n] = result
            returns[t, n] = value[t, n] + weight[t, n] * result


@kernel
def importance_weights(behavior_log_prob: Array, old_log_prob: Array, weight: Array) -> None:
    """Write min(1, exp(old_log_prob - behavior_log_prob)) into `weight`; all (T, N)."""
    for t in range(weight.shape[0]):
        for n in range(weight.shape[1]):
            log_ratio = float(old_log_prob[t, n]) - behavior_log_prob[t, n]
            weight[t, n] = math.exp(min(0.0, log_ratio))
