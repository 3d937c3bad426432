"""Sampling of Gaussian actions and of ordered subsets of actions, for a whole batch.

Categorical actions are sampled by `ppo/kernels/categorical.py`.
"""

from __future__ import annotations

import math

from briskrl.compiler.jit import helper, kernel
from briskrl.core.types import Array

HALF_LOG_TWO_PI = 0.5 * math.log(2 * math.pi)

NO_ACTION = -1
"""Fills up a subset when fewer than k actions are legal."""


@kernel
def sample_gaussian(out: Array, noise: Array, action: Array, log_prob: Array) -> None:
    """Sample continuous actions from independent normal distributions.

    The log probability is that of the action as it is stored, rounded to float32.

    Args:
        out: (N, 2 D) float32 means and log standard deviations.
        noise: (N, D) standard normal.
        action: (N, D) float32, written.
        log_prob: (N,) float32 log probability summed over D, written.
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


@helper
def mark_available(mask: Array, row: int, available: Array) -> int:
    """Mark the legal actions of a row in `available` (n,), all of them if none is legal.

    Returns:
        How many are available.
    """
    size = available.shape[0]
    masked = False
    if mask.shape[0] > 0:
        for i in range(size):
            masked |= mask[row, i]
    count = 0
    for i in range(size):
        available[i] = not masked or mask[row, i]
        count += available[i]
    return count


@kernel
def sample_subsets(
    logits: Array, mask: Array, draws: Array, available: Array, action: Array, log_prob: Array
) -> None:
    """Sample k actions one after another, each from the softmax of the remaining logits.

    This is the Plackett-Luce distribution over ordered subsets, which the k largest of logits plus
    Gumbel noise have, too.

    Args:
        logits: (N, n) float32.
        mask: (N, n) bool, or (0, 0) if every action is legal.
        draws: (N, k) uniform in [0, 1).
        available: (n,) bool, scratch.
        action: (N, k) int64, written; NO_ACTION where fewer are legal.
        log_prob: (N,) float32 log probability of the ordered subset, written.
    """
    size = logits.shape[1]
    for row in range(logits.shape[0]):
        left = mark_available(mask, row, available)
        total_log_prob = 0.0
        for d in range(action.shape[1]):
            action[row, d] = NO_ACTION
            if left == 0:
                continue
            highest = -math.inf
            for i in range(size):
                if available[i]:
                    highest = max(highest, float(logits[row, i]))
            total = 0.0
            for i in range(size):
                if available[i]:
                    total += math.exp(logits[row, i] - highest)
            # If rounding leaves the draw past every action, take the last available one.
            rest = draws[row, d] * total
            taken = 0
            for i in range(size):
                if available[i]:
                    taken = i
                    rest -= math.exp(logits[row, i] - highest)
                    if rest < 0:
                        break
            action[row, d] = taken
            available[taken] = False
            left -= 1
            total_log_prob += logits[row, taken] - highest - math.log(total)
        log_prob[row] = total_log_prob


@kernel
def mix_random_subsets(
    greedy: Array, draws: Array, epsilon: float, mask: Array, available: Array, out: Array
) -> None:
    """Replace each greedy action of a subset by a random legal one with probability epsilon.

    No action is taken twice.

    Args:
        greedy: (N, k) int64, best first, NO_ACTION where fewer are legal.
        draws: (2, N, k) uniform in [0, 1): whether to explore, and with which action.
        epsilon: Probability of a random action.
        mask: (N, n) bool, or (0, 0) if every action is legal.
        available: (n,) bool, scratch.
        out: (N, k) int64, written.
    """
    size = available.shape[0]
    for row in range(greedy.shape[0]):
        left = mark_available(mask, row, available)
        for d in range(greedy.shape[1]):
            out[row, d] = NO_ACTION
            if draws[0, row, d] >= epsilon or left == 0:
                continue
            rank = int(draws[1, row, d] * left)
            for i in range(size):
                if available[i]:
                    if rank == 0:
                        out[row, d] = i
                        available[i] = False
                        left -= 1
                        break
                    rank -= 1
        # Random actions are chosen first, so that they are uniform; the best greedy ones follow.
        best = 0
        for d in range(greedy.shape[1]):
            if out[row, d] != NO_ACTION:
                continue
            while best < greedy.shape[1]:
                candidate = greedy[row, best]
                best += 1
                if candidate != NO_ACTION and available[candidate]:
                    out[row, d] = candidate
                    available[candidate] = False
                    break
