"""The PPO loss and its gradient at the network's outputs."""

from __future__ import annotations

import math

from briskrl.algos.ppo.kernels.categorical import (
    _add_entropies,
    _begin_of,
    _recall,
    soften,
)
from briskrl.compiler.jit import helper, inlined, reordering
from briskrl.compiler.math import exp_all, within


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
