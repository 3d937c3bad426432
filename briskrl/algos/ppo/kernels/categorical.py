"""Categorical policies: softmax, sampling, log probabilities and entropy, a block of rows at once.

The torch counterpart is `briskrl.algos.distributions.Categorical`. Shapes: N environments, D action
dimensions (1 unless the action space is MultiDiscrete), S logits of all dimensions together. The
logits of dimension d end at `ends[d]`. Block arrays have the rows last, so that loops over rows
fill whole vectors.
"""

from __future__ import annotations

import math
from typing import Any, NamedTuple

from briskrl.compiler.jit import fastmath_helper, helper, inline_helper, kernel
from briskrl.compiler.math import exp_all, log_all

ROWS = 64
"""Rows of a block."""
ILLEGAL = -1e9
"""Logit of an illegal action: its probability is 0, and 0 times a finite logit is 0."""


class SoftmaxBuffers(NamedTuple):
    """Scratch arrays for one block of up to ROWS rows, float64; every thread needs its own."""

    shifted: Any
    """(S, ROWS) logits minus the highest legal logit of their dimension."""
    exp_shifted: Any
    """(S, ROWS) exp(shifted): probabilities before division by `total`."""
    total: Any
    """(D, ROWS) sums of exp_shifted."""
    log_total: Any
    """(D, ROWS) log(total)."""
    entropy: Any
    """(D, ROWS)"""
    log_prob: Any
    """(ROWS,) log probability of the actions taken, summed over dimensions."""
    log_ratio: Any
    """(ROWS,) log_prob - old_log_prob."""
    ratio: Any
    """(ROWS,) exp(log_ratio): new over old probability."""
    log_prob_grad: Any
    """(ROWS,) d loss / d log_prob."""


@inline_helper
def first_logit(ends, d):
    """The column where the logits of dimension d begin."""
    return ends[d - 1] if d > 0 else 0


@helper
def _mask_illegal(mask, first, rows, begin, end, shifted):
    """Set the logits of illegal actions to -inf; a row without legal actions stays as it is."""
    for r in range(rows):
        any_legal = False
        for i in range(begin, end):
            any_legal |= mask[first + r, i]
        for i in range(begin, end):
            if any_legal and not mask[first + r, i]:
                shifted[i, r] = -math.inf


@helper
def _subtract_max(shifted, begin, end, highest):
    """Subtract the highest logit of one dimension in every row; `highest` (R,) is scratch."""
    rows = highest.shape[0]
    for r in range(rows):
        highest[r] = shifted[begin, r]
    for i in range(begin + 1, end):
        for r in range(rows):
            highest[r] = shifted[i, r] if shifted[i, r] > highest[r] else highest[r]
    for i in range(begin, end):
        for r in range(rows):
            less = shifted[i, r] - highest[r]
            shifted[i, r] = ILLEGAL if less < ILLEGAL else less


@helper
def masked_softmax(logits, mask, ends, first, rows, buffers):
    """Fill `buffers` up to log_total for rows first..first+rows-1 of (N, S) logits."""
    shifted, exp_shifted = buffers.shifted, buffers.exp_shifted
    for d in range(ends.shape[0]):
        begin, end = first_logit(ends, d), ends[d]
        total = buffers.total[d, :rows]
        for i in range(begin, end):
            for r in range(rows):
                shifted[i, r] = logits[first + r, i]
        if mask.shape[0] > 0:
            _mask_illegal(mask, first, rows, begin, end, shifted)
        _subtract_max(shifted, begin, end, total)
        total[:] = 0
        for i in range(begin, end):
            exp_all(shifted[i, :rows], exp_shifted[i, :rows])
            for r in range(rows):
                total[r] += exp_shifted[i, r]
        log_all(total, buffers.log_total[d, :rows])


@helper
def block_log_probs(ends, action, first, rows, buffers):
    """Fill `buffers.log_prob` for actions (N, D) of rows first..first+rows-1."""
    log_prob = buffers.log_prob[:rows]
    log_prob[:] = 0
    for d in range(ends.shape[0]):
        begin = first_logit(ends, d)
        for r in range(rows):
            taken = begin + action[first + r, d]
            log_prob[r] += buffers.shifted[taken, r] - buffers.log_total[d, r]


@fastmath_helper
def block_entropies(ends, rows, buffers):
    """Fill `buffers.entropy` of a block; returns the sum over rows and dimensions."""
    total_entropy = 0.0
    for d in range(ends.shape[0]):
        entropy, total = buffers.entropy[d, :rows], buffers.total[d, :rows]
        log_total = buffers.log_total[d, :rows]
        entropy[:] = 0
        for i in range(first_logit(ends, d), ends[d]):
            for r in range(rows):
                entropy[r] += buffers.exp_shifted[i, r] * buffers.shifted[i, r]
        for r in range(rows):
            entropy[r] = log_total[r] - entropy[r] / total[r]
            total_entropy += entropy[r]
    return total_entropy


@helper
def log_probs(logits, mask, ends, action, log_prob, buffers):
    """Write the log probabilities (N,) of given actions (N, D)."""
    for first in range(0, logits.shape[0], ROWS):
        rows = min(ROWS, logits.shape[0] - first)
        masked_softmax(logits, mask, ends, first, rows, buffers)
        block_log_probs(ends, action, first, rows, buffers)
        for r in range(rows):
            log_prob[first + r] = buffers.log_prob[r]


@kernel
def sample_actions(logits, mask, ends, draws, action, log_prob, buffers):
    """Sample one action per dimension from the softmax of its legal logits.

    Args:
        logits: (N, S) float32; further columns are ignored.
        mask: (N, S) bool, or (0, 0) if every action is legal.
        ends: (D,) where the logits of each dimension end.
        draws: (N, D) uniform in [0, 1).
        action: (N, D) int64, written.
        log_prob: (N,) float32 log probability summed over dimensions, written.
        buffers: SoftmaxBuffers.
    """
    for first in range(0, logits.shape[0], ROWS):
        rows = min(ROWS, logits.shape[0] - first)
        masked_softmax(logits, mask, ends, first, rows, buffers)
        for d in range(ends.shape[0]):
            begin = first_logit(ends, d)
            for r in range(rows):
                left = draws[first + r, d] * buffers.total[d, r]
                # If rounding leaves the draw past every action, take the last possible one.
                taken = begin
                for i in range(begin, ends[d]):
                    prob = buffers.exp_shifted[i, r]
                    if prob > 0:
                        taken = i
                        left -= prob
                        if left < 0:
                            break
                action[first + r, d] = taken - begin
        block_log_probs(ends, action, first, rows, buffers)
        for r in range(rows):
            log_prob[first + r] = buffers.log_prob[r]
