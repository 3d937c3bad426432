"""Compiled pieces of policies that choose: chances, draws, log probabilities, the loss's slopes.

A row holds the logits of D choices side by side, S in all; `ends` (D,) says where those of each
choice end. Rows are taken in blocks of ROWS. In a Softmax they lie side by side: what is worked out
for all rows of a block at once fills vectors, however few actions there are.
"""

from __future__ import annotations

import math
from typing import Any, NamedTuple

from briskrl.jit import helper, inlined, kernel, reordering
from briskrl.nets.kernels import exp_all, log_all, within

ROWS = 64
ILLEGAL = -1e9
"""Stands for the logit of an illegal action: chance 0, and finite, so that 0 times it is 0."""


class Softmax(NamedTuple):
    """What is known of one block's choices; float64."""

    shifted: Any
    """(S, ROWS) logits less the highest legal one of their choice."""
    chance: Any
    """(S, ROWS) exp(shifted): chances but for the normaliser."""
    total: Any
    """(D, ROWS) normalisers."""
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
    slope: Any
    """(ROWS,) d loss / d log_prob"""


@inlined
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
def soften(logits, mask, ends, first, rows, space):
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
def _recall(ends, action, first, rows, space):
    """Fill in the log probabilities of actions (N, D) of rows first..first+rows-1."""
    log_prob = space.log_prob[:rows]
    log_prob[:] = 0
    for d in range(ends.shape[0]):
        begin = _begin_of(ends, d)
        for r in range(rows):
            taken = begin + action[first + r, d]
            log_prob[r] += space.shifted[taken, r] - space.log_total[d, r]


@helper
def recall_choices(logits, mask, ends, action, log_prob, space):
    """Write the log probabilities (N,) of actions (N, D) that were taken before."""
    for first in range(0, logits.shape[0], ROWS):
        rows = min(ROWS, logits.shape[0] - first)
        soften(logits, mask, ends, first, rows, space)
        _recall(ends, action, first, rows, space)
        for r in range(rows):
            log_prob[first + r] = space.log_prob[r]


@kernel
def sample_choices(logits, mask, ends, draws, action, log_prob, space):
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
        soften(logits, mask, ends, first, rows, space)
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
        _recall(ends, action, first, rows, space)
        for r in range(rows):
            log_prob[first + r] = space.log_prob[r]


@reordering
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


@inlined
def _surrogate(ratio, worth, clip):
    """PPO's clipped gain, and its slope with respect to the log probability."""
    gain, limited = ratio * worth, within(1 - clip, ratio, 1 + clip) * worth
    # Written so that NaN goes through.
    return (limited, 0.0) if gain > limited else (gain, gain)


@helper
def _set_logit_slopes(ends, action, rows, bonus, space, out):
    """Write slopes of logits: those of log probabilities, times `slope`, and of entropies."""
    slope = space.slope
    for d in range(ends.shape[0]):
        begin = _begin_of(ends, d)
        for i in range(begin, ends[d]):
            for r in range(rows):
                # Chances of 0, illegal or vanishing, leave a slope of 0.
                chance = space.chance[i, r] / space.total[d, r]
                log_chance = space.shifted[i, r] - space.log_total[d, r]
                out[r, i] = chance * (bonus * (log_chance + space.entropy[d, r]) - slope[r])
        for r in range(rows):
            out[r, begin + action[r, d]] += slope[r]


@inlined
def _value_error(value, value_then, ret, clip):
    """The squared error of a value, and half its slope.

    Where clipping around an older value makes the error larger, that is constant: its slope is 0.
    """
    error, moved = value - ret, value - value_then
    limited = value_then + math.copysign(clip, moved) - ret
    fixed = (clip > 0) & (abs(moved) > clip) & (limited * limited > error * error)
    return (limited * limited, 0.0) if fixed else (error * error, error)


@reordering
def _weigh_policy(rows, anchor, weight, advantage, settings, space, sums):
    """Fill in ratios and slopes of a block, and add to sums what concerns the policy."""
    clip, _, _, _, count = settings
    moved, ratio = space.moved[:rows], space.ratio[:rows]
    slope, log_prob = space.slope, space.log_prob
    gains, divergence, clipped = 0.0, 0.0, 0
    for r in range(rows):
        moved[r] = log_prob[r] - anchor[r]
    exp_all(moved, ratio)
    for r in range(rows):
        worth = float(weight[r]) * advantage[r]
        divergence += ratio[r] - 1 - moved[r]
        if clip > 0:
            gain, up = _surrogate(ratio[r], worth, clip)
            clipped += abs(ratio[r] - 1) > clip
        else:
            gain, up = worth * log_prob[r], worth
        gains += gain
        slope[r] = -up / count
    sums[0] -= gains
    sums[3] += divergence
    sums[4] += clipped


@reordering
def _weigh_values(rows, value, value_then, ret, settings, out, sums):
    """Write slopes of values, and add to sums what concerns them."""
    _, clip, _, coef, count = settings
    factor = 2 * coef / count
    squares = 0.0
    for r in range(rows):
        squared, error = _value_error(float(value[r, 0]), value_then[r], ret[r], clip)
        out[r, 0] = factor * error
        squares += squared
    sums[1] += squares


@helper
def policy_slopes(
    logits,
    value,
    mask,
    ends,
    action,
    anchor,
    weight,
    value_then,
    advantage,
    ret,
    settings,
    space,
    logit_slope,
    value_slope,
    sums,
):
    """The on-policy loss's slopes with respect to a network's outputs, and its parts.

    The same loss as `losses.PolicyTerms.loss`. With p the probabilities of a choice, H its
    entropy and a the action: d log p[a] / d logit[i] = (i == a) - p[i] and
    d H / d logit[i] = -p[i] * (log p[i] + H).

    Args:
        logits: (B, S) float32, B at most ROWS; see sample_choices.
        value: (B, 1) float32.
        mask: (B, S) bool, or (0, 0) if every action is legal.
        ends: (D,) where each choice's logits end.
        action: (B, D) int64.
        anchor: (B,) float32, see Minibatch.
        weight: (B,) float32, likewise.
        value_then: (B,) float32, the minibatch's value.
        advantage: (B,) float32.
        ret: (B,) float32.
        settings: (5,) float64: clip, value clip, entropy coefficient, value coefficient, and how
            many steps the loss is a mean of.
        space: Softmax to work in.
        logit_slope: (B, S) float32, written.
        value_slope: (B, 1) float32, written.
        sums: (5,) float64, added to: policy loss, squared value error, entropy, divergence, number
            of clipped steps.
    """
    rows = logits.shape[0]
    soften(logits, mask, ends, 0, rows, space)
    _recall(ends, action, 0, rows, space)
    sums[2] += _add_entropies(ends, rows, space)
    _weigh_policy(rows, anchor, weight, advantage, settings, space, sums)
    _set_logit_slopes(ends, action, rows, settings[2] / settings[4], space, logit_slope)
    _weigh_values(rows, value, value_then, ret, settings, value_slope, sums)
