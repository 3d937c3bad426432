"""Compiled loops that choose k different actions out of n, for a whole batch.

A choice of fewer actions, because fewer are legal, is filled up with -1.
"""

from __future__ import annotations

import math

import numpy as np

from briskrl.compiler.jit import helper, kernel
from briskrl.core.types import Array

NONE = -1
"""Stands for no action."""


@helper
def open_row(mask: Array, row: int, open_: Array) -> int:
    """Mark the actions that can be taken in `open_` (n,); a row without legal ones has them all."""
    size = open_.shape[0]
    masked = False
    if mask.shape[0] > 0:
        for i in range(size):
            masked |= mask[row, i]
    count = 0
    for i in range(size):
        open_[i] = not masked or mask[row, i]
        count += open_[i]
    return count


@kernel
def sample_subsets(
    logits: Array, mask: Array, draws: Array, open_: Array, action: Array, log_prob: Array
) -> None:
    """Draw actions one after another from the softmax of the logits that are left.

    That is the Plackett-Luce distribution over ordered choices, the same that the k largest of
    logits with Gumbel noise have.

    Args:
        logits: (N, n) float32.
        mask: (N, n) bool, or (0, 0) if every action is legal.
        draws: (N, k) uniform in [0, 1).
        open_: (n,) bool, scratch.
        action: (N, k) int64, written.
        log_prob: (N,) float32 log probability of the ordered choice, written.
    """
    size = logits.shape[1]
    for row in range(logits.shape[0]):
        left = open_row(mask, row, open_)
        total_log_prob = 0.0
        for d in range(action.shape[1]):
            action[row, d] = NONE
            if left == 0:
                continue
            highest = -math.inf
            for i in range(size):
                if open_[i]:
                    highest = max(highest, float(logits[row, i]))
            total = 0.0
            for i in range(size):
                if open_[i]:
                    total += math.exp(logits[row, i] - highest)
            # Where rounding leaves the draw past every action, the last open one has it.
            rest = draws[row, d] * total
            chosen = 0
            for i in range(size):
                if open_[i]:
                    chosen = i
                    rest -= math.exp(logits[row, i] - highest)
                    if rest < 0:
                        break
            action[row, d] = chosen
            open_[chosen] = False
            left -= 1
            total_log_prob += logits[row, chosen] - highest - math.log(total)
        log_prob[row] = total_log_prob


@kernel
def mix_random_subsets(
    greedy: Array, draws: Array, epsilon: float, mask: Array, open_: Array, out: Array
) -> None:
    """Replace a share epsilon of the greedy actions by random legal ones, none of them twice.

    Args:
        greedy: (N, k) int64, best first, -1 where fewer are legal.
        draws: (2, N, k) uniform in [0, 1): whether to explore, and which action then.
        epsilon: Share of random actions.
        mask: (N, n) bool, or (0, 0) if every action is legal.
        open_: (n,) bool, scratch.
        out: (N, k) int64, written.
    """
    size = open_.shape[0]
    for row in range(greedy.shape[0]):
        left = open_row(mask, row, open_)
        for d in range(greedy.shape[1]):
            out[row, d] = NONE
            if draws[0, row, d] >= epsilon or left == 0:
                continue
            rank = int(draws[1, row, d] * left)
            for i in range(size):
                if open_[i]:
                    if rank == 0:
                        out[row, d] = i
                        open_[i] = False
                        left -= 1
                        break
                    rank -= 1
        # Random ones come first, so that they are uniform; of the greedy ones the best are kept.
        best = 0
        for d in range(greedy.shape[1]):
            if out[row, d] != NONE:
                continue
            while best < greedy.shape[1]:
                chosen = greedy[row, best]
                best += 1
                if chosen != NONE and open_[chosen]:
                    out[row, d] = chosen
                    open_[chosen] = False
                    break


def room_for(size: int) -> Array:
    """The scratch of both kernels."""
    return np.zeros(size, np.bool_)
