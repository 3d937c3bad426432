"""Categorical policies: softmax, sampling, log probabilities, entropy."""

from __future__ import annotations

import math
from typing import Any, NamedTuple

from briskrl.compiler.jit import fastmath_helper, helper, inline_helper, kernel
from briskrl.compiler.math import exp_all, log_all

ROWS = 64
ILLEGAL = -1e9
"""Stands for the logit of an illegal action: chance 0, and finite, so that 0 times it is 0."""


class Softmax(NamedTuple):
    """What is known of one block's choices; float64."""

    shifted: Any
    """(S, ROWS) logits less the highest legal one of their choice."""
    chance: Any
    """(S, ROWS) exp(shifted): chances but for the normalizer."""
    total: Any
    """(D, ROWS) normalizers."""
    log_total: Any
    """(D, ROWS)"""
    entropy: Any
    """(D, ROWS)"""
    log_prob: Any
    """(ROWS,) log probability of the actions taken, all choices together."""
    moved: Any
    """(ROWS,) how far that is from where it is anchored."""
    ratio: Any
    """(ROWS,) exp(moved): how much likelier actions have become."""
    log_prob_grad: Any
    """(ROWS,) d loss / d log_prob"""


@inline_helper
def _begin_of(ends, choice):
    return ends[choice - 1] if choice > 0 else 0


@helper
def _rule_out(mask, first, rows, begin, end, shifted):
    """Put illegal actions of one choice out of reach; none legal means all are."""
    for r in range(rows):
        any_legal = False
        for i in range(begin, end):
            any_legal |= mask[first + r, i]
        for i in range(begin, end):
            if any_legal and not mask[first + r, i]:
                shifted[i, r] = -math.inf


@helper
def _shift(shifted, begin, end, highest):
    """Subtract the highest of one choice's logits; `highest` (R,) is room for those of R rows."""
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
def softmax(logits, mask, ends, first, rows, space):
    """Fill `space` up to log_total for rows first..first+rows-1 of (N, S) logits."""
    shifted, chance = space.shifted, space.chance
    for d in range(ends.shape[0]):
        begin, end = _begin_of(ends, d), ends[d]
        total = space.total[d, :rows]
        for i in range(begin, end):
            for r in range(rows):
                shifted[i, r] = logits[first + r, i]
        if mask.shape[0] > 0:
            _rule_out(mask, first, rows, begin, end, shifted)
        _shift(shifted, begin, end, total)
        total[:] = 0
        for i in range(begin, end):
            exp_all(shifted[i, :rows], chance[i, :rows])
            for r in range(rows):
                total[r] += chance[i, r]
        log_all(total, space.log_total[d, :rows])


@helper
def _log_probs(ends, action, first, rows, space):
    """Fill in the log probabilities of actions (N, D) of rows first..first+rows-1."""
    log_prob = space.log_prob[:rows]
    log_prob[:] = 0
    for d in range(ends.shape[0]):
        begin = _begin_of(ends, d)
        for r in range(rows):
            taken = begin + action[first + r, d]
            log_prob[r] += space.shifted[taken, r] - space.log_total[d, r]


@helper
def log_probs(logits, mask, ends, action, log_prob, space):
    """Write the log probabilities (N,) of actions (N, D) that were taken before."""
    for first in range(0, logits.shape[0], ROWS):
        rows = min(ROWS, logits.shape[0] - first)
        softmax(logits, mask, ends, first, rows, space)
        _log_probs(ends, action, first, rows, space)
        for r in range(rows):
            log_prob[first + r] = space.log_prob[r]


@kernel
def sample_actions(logits, mask, ends, draws, action, log_prob, space):
    """Draw one action per choice from the softmax of its legal logits.

    Args:
        logits: (N, S) float32, possibly with more columns behind them.
        mask: (N, S) bool, or (0, 0) if every action is legal.
        ends: (D,) where each choice's logits end.
        draws: (N, D) uniform in [0, 1).
        action: (N, D) int64, written.
        log_prob: (N,) float32 log probability of all choices together, written.
        space: Softmax to work in.
    """
    for first in range(0, logits.shape[0], ROWS):
        rows = min(ROWS, logits.shape[0] - first)
        softmax(logits, mask, ends, first, rows, space)
        for d in range(ends.shape[0]):
            begin = _begin_of(ends, d)
            for r in range(rows):
                left = draws[first + r, d] * space.total[d, r]
                # Where rounding leaves the draw past every action, the last possible one has it.
                chosen = begin
                for i in range(begin, ends[d]):
                    chance = space.chance[i, r]
                    if chance > 0:
                        chosen = i
                        left -= chance
                        if left < 0:
                            break
                action[first + r, d] = chosen - begin
        _log_probs(ends, action, first, rows, space)
        for r in range(rows):
            log_prob[first + r] = space.log_prob[r]


@fastmath_helper
def _add_entropies(ends, rows, space):
    """Fill in the entropies of a block's choices; returns their sum."""
    found = 0.0
    for d in range(ends.shape[0]):
        entropy, total = space.entropy[d, :rows], space.total[d, :rows]
        log_total = space.log_total[d, :rows]
        entropy[:] = 0
        for i in range(_begin_of(ends, d), ends[d]):
            for r in range(rows):
                entropy[r] += space.chance[i, r] * space.shifted[i, r]
        for r in range(rows):
            entropy[r] = log_total[r] - entropy[r] / total[r]
            found += entropy[r]
    return found
