"""Compiled pieces of the algorithms."""

from __future__ import annotations

import math

from briskrl.core.types import Array
from briskrl.jit import kernel
from briskrl.nets.kernels import within

HALF_LOG_TWO_PI = 0.5 * math.log(2 * math.pi)


@kernel
def mix_random_actions(
    greedy: Array, draws: Array, epsilon: float, num_actions: int, mask: Array, out: Array
) -> None:
    """Replace a share epsilon of greedy actions by random legal ones.

    Args:
        greedy: (N,) int64.
        draws: (2, N) uniform in [0, 1): whether to explore, and which action then.
        epsilon: Share of random actions.
        num_actions: A.
        mask: (N, A) bool, or (0, 0) if every action is legal.
        out: (N,) int64, written.
    """
    masked = mask.shape[0] > 0
    for i in range(greedy.shape[0]):
        out[i] = greedy[i]
        if draws[0, i] >= epsilon:
            continue
        legal = 0
        if masked:
            for action in range(num_actions):
                legal += mask[i, action]
        if legal == 0:
            out[i] = int(draws[1, i] * num_actions)
            continue
        rank = int(draws[1, i] * legal)
        for action in range(num_actions):
            if mask[i, action]:
                if rank == 0:
                    out[i] = action
                    break
                rank -= 1


@kernel
def sample_gaussian(out: Array, noise: Array, action: Array, log_prob: Array) -> None:
    """Draw continuous actions from independent normal distributions.

    The log probability is that of the action as it is stored, rounded to float32.

    Args:
        out: (N, 2 D) float32 means and log deviations.
        noise: (N, D) standard normal.
        action: (N, D) float32, written.
        log_prob: (N,) float32 log probability of all of them together, written.
    """
    size = action.shape[1]
    for row in range(action.shape[0]):
        total = 0.0
        for d in range(size):
            mean = float(out[row, d])
            log_std = float(out[row, size + d])
            action[row, d] = mean + math.exp(log_std) * noise[row, d]
            z = (action[row, d] - mean) * math.exp(-log_std)
            total -= 0.5 * z * z + log_std + HALF_LOG_TWO_PI
        log_prob[row] = total


@kernel
def estimate_advantages(
    reward: Array,
    value: Array,
    final_value: Array,
    terminated: Array,
    truncated: Array,
    weight: Array,
    settings: Array,
    advantage: Array,
    ret: Array,
) -> None:
    """Generalised advantage estimation of steps whose policy may be an older one.

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
        ret: v, likewise.
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
            ret[t, n] = value[t, n] + weight[t, n] * result


@kernel
def weigh_steps(log_prob: Array, anchor: Array, weight: Array) -> None:
    """Write min(1, exp(anchor - log_prob)) for T rows of N steps each into `weight`."""
    for t in range(weight.shape[0]):
        for n in range(weight.shape[1]):
            weight[t, n] = math.exp(min(0.0, float(anchor[t, n]) - log_prob[t, n]))


@kernel
def standardise(values: Array, out: Array) -> None:
    """Write `values` (B,) scaled to mean 0 and deviation 1 (unbiased) into `out`."""
    size = values.shape[0]
    if size == 1:
        out[0] = values[0]
        return
    mean = 0.0
    for i in range(size):
        mean += values[i]
    mean /= size
    squares = 0.0
    for i in range(size):
        squares += (values[i] - mean) ** 2
    scale = 1 / (math.sqrt(squares / (size - 1)) + 1e-8)
    for i in range(size):
        out[i] = (values[i] - mean) * scale


@kernel
def add_rows(rows: Array, count: float, mean: Array, squares: Array) -> None:
    """Take rows (M, F) into running moments (Welford 1962).

    Args:
        rows: What is new, any number type.
        count: How many rows the moments are of already; the caller adds M afterwards.
        mean: (F,) float64, updated.
        squares: (F,) float64 sum of squared deviations from the mean, updated.
    """
    for row in range(rows.shape[0]):
        count += 1
        share = 1 / count
        for i in range(rows.shape[1]):
            before = rows[row, i] - mean[i]
            mean[i] += before * share
            squares[i] += before * (rows[row, i] - mean[i])


@kernel
def add_returns(
    reward: Array, terminated: Array, truncated: Array, gamma: float, ret: Array, moments: Array
) -> None:
    """Take the discounted returns so far, at every step of a rollout, into running moments.

    Args:
        reward: (T, N).
        terminated: (T, N).
        truncated: (T, N).
        gamma: Discount per step.
        ret: (N,) float64 return of the episodes under way, updated.
        moments: (3,) float64 count, mean and sum of squared deviations, updated.
    """
    for t in range(reward.shape[0]):
        for n in range(reward.shape[1]):
            ret[n] = ret[n] * gamma + reward[t, n]
            moments[0] += 1
            before = ret[n] - moments[1]
            moments[1] += before / moments[0]
            moments[2] += before * (ret[n] - moments[1])
            if terminated[t, n] or truncated[t, n]:
                ret[n] = 0.0
