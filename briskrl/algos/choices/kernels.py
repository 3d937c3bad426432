"""Compiled pieces of policies that choose: chances, draws, log probabilities, the loss's slopes.

A row holds the logits of D choices side by side, S in all; `ends` (D,) says where those of each
choice end. Rows are taken in blocks of ROWS; exponentials and logarithms are worked out for a whole
block at once in a Softmax, where they fill vectors.
"""

from __future__ import annotations

import math
from typing import Any, NamedTuple

from briskrl.jit import helper, inlined, kernel
from briskrl.nets.kernels import exp_all, log_all

ROWS = 64
ILLEGAL = -1e9
"""Stands for the logit of an illegal action: chance 0, and finite, so that 0 times it is 0."""


class Softmax(NamedTuple):
    """What is known of one block's choices; float64."""

    shifted: Any
    """(ROWS * S,) logits less the highest legal one of their choice."""
    chance: Any
    """(ROWS * S,) exp(shifted): chances but for the normaliser."""
    total: Any
    """(ROWS * D,) normalisers."""
    log_total: Any
    """(ROWS * D,)"""
    entropy: Any
    """(ROWS * D,)"""
    ratio: Any
    """(ROWS,) how much likelier actions have become."""


@inlined
def _any_legal(mask, row, begin, end):
    """Whether a mask says anything of these actions; none legal means all are."""
    found = False
    if mask.shape[0] > 0:
        for i in range(begin, end):
            found |= mask[row, i]
    return found


@helper
def soften(logits, mask, ends, first, rows, space):
    """Fill `space` up to log_total for rows first..first+rows-1 of (N, S) logits."""
    choices = ends.shape[0]
    size = ends[choices - 1]
    shifted, chance, total = space.shifted, space.chance, space.total
    for r in range(rows):
        row, at, begin = first + r, r * size, 0
        for d in range(choices):
            end = ends[d]
            masked = _any_legal(mask, row, begin, end)
            highest = -math.inf
            for i in range(begin, end):
                if not masked or mask[row, i]:
                    highest = max(highest, float(logits[row, i]))
            for i in range(begin, end):
                legal = not masked or mask[row, i]
                shifted[at + i] = logits[row, i] - highest if legal else ILLEGAL
            begin = end
    exp_all(shifted[: rows * size], chance[: rows * size])
    for r in range(rows):
        at, begin = r * size, 0
        for d in range(choices):
            sum_of_all = 0.0
            for i in range(begin, ends[d]):
                sum_of_all += chance[at + i]
            total[r * choices + d] = sum_of_all
            begin = ends[d]
    log_all(total[: rows * choices], space.log_total[: rows * choices])


@inlined
def _begin_of(ends, choice):
    return ends[choice - 1] if choice > 0 else 0


@inlined
def _log_prob(ends, action, row, r, space):
    """The log probability of one row's actions (N, D), all choices together; r is its place."""
    choices = ends.shape[0]
    size = ends[choices - 1]
    found = 0.0
    for d in range(choices):
        chosen = r * size + _begin_of(ends, d) + action[row, d]
        found += space.shifted[chosen] - space.log_total[r * choices + d]
    return found


@helper
def recall_choices(logits, mask, ends, action, log_prob, space):
    """Write the log probabilities (N,) of actions (N, D) that were taken before."""
    for first in range(0, logits.shape[0], ROWS):
        rows = min(ROWS, logits.shape[0] - first)
        soften(logits, mask, ends, first, rows, space)
        for r in range(rows):
            log_prob[first + r] = _log_prob(ends, action, first + r, r, space)


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
    choices = ends.shape[0]
    size = ends[choices - 1]
    for first in range(0, logits.shape[0], ROWS):
        rows = min(ROWS, logits.shape[0] - first)
        soften(logits, mask, ends, first, rows, space)
        for r in range(rows):
            for d in range(choices):
                begin = _begin_of(ends, d)
                left = draws[first + r, d] * space.total[r * choices + d]
                # Where rounding leaves the draw past every action, the last possible one has it.
                chosen = begin
                for i in range(begin, ends[d]):
                    chance = space.chance[r * size + i]
                    if chance > 0:
                        chosen = i
                        left -= chance
                        if left < 0:
                            break
                action[first + r, d] = chosen - begin
            log_prob[first + r] = _log_prob(ends, action, first + r, r, space)


@helper
def _add_entropies(ends, rows, space):
    """Fill in the entropies of a block's choices; returns their sum."""
    choices = ends.shape[0]
    size = ends[choices - 1]
    found = 0.0
    for r in range(rows):
        for d in range(choices):
            weighted = 0.0
            for i in range(r * size + _begin_of(ends, d), r * size + ends[d]):
                weighted += space.chance[i] * space.shifted[i]
            at = r * choices + d
            space.entropy[at] = space.log_total[at] - weighted / space.total[at]
            found += space.entropy[at]
    return found


@inlined
def _surrogate(ratio, worth, clip):
    """PPO's clipped gain, and its slope with respect to the log probability."""
    limited = min(1 + clip, max(1 - clip, ratio))
    # Written so that NaN goes through.
    through = not ratio * worth > limited * worth
    return min(ratio * worth, limited * worth), worth * ratio if through else 0.0


@inlined
def _set_logit_slopes(ends, action, r, slope, bonus, space, out):
    """Write one row's slopes: of its log probability, times `slope`, and of its entropies."""
    choices = ends.shape[0]
    size = ends[choices - 1]
    for d in range(choices):
        at = r * choices + d
        per_total = 1 / space.total[at]
        begin = _begin_of(ends, d)
        for i in range(begin, ends[d]):
            # Chances of 0, illegal or vanishing, leave a slope of 0.
            log_chance = space.shifted[r * size + i] - space.log_total[at]
            chance = space.chance[r * size + i] * per_total
            out[r, i] = chance * (bonus * (log_chance + space.entropy[at]) - slope)
        out[r, begin + action[r, d]] += slope


@inlined
def _value_error(value, value_then, ret, clip):
    """The squared error of a value, and half its slope.

    Where clipping around an older value makes the error larger, that is constant: its slope is 0.
    """
    error, moved = value - ret, value - value_then
    if clip > 0 and abs(moved) > clip:
        limited = value_then + math.copysign(clip, moved) - ret
        if limited * limited > error * error:
            return limited * limited, 0.0
    return error * error, error


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
    clip, clip_value, entropy_coef, value_coef, count = settings
    share = 1 / count
    bonus = entropy_coef * share
    rows = logits.shape[0]
    soften(logits, mask, ends, 0, rows, space)
    entropies = _add_entropies(ends, rows, space)
    ratios = space.ratio[:rows]
    divergence = 0.0
    for r in range(rows):
        ratios[r] = _log_prob(ends, action, r, r, space) - anchor[r]
        divergence -= 1 + ratios[r]
    exp_all(ratios, ratios)

    gains, squares, clipped = 0.0, 0.0, 0
    for r in range(rows):
        ratio = ratios[r]
        worth = float(weight[r]) * advantage[r]
        divergence += ratio
        if clip > 0:
            gain, slope = _surrogate(ratio, worth, clip)
            clipped += abs(ratio - 1) > clip
        else:
            gain, slope = worth * _log_prob(ends, action, r, r, space), worth
        gains += gain
        _set_logit_slopes(ends, action, r, -slope * share, bonus, space, logit_slope)
        squared, error = _value_error(float(value[r, 0]), value_then[r], ret[r], clip_value)
        value_slope[r, 0] = 2 * value_coef * error * share
        squares += squared
    sums[0] -= gains
    sums[1] += squares
    sums[2] += entropies
    sums[3] += divergence
    sums[4] += clipped
