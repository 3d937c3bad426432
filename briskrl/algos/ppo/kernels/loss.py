"""The PPO loss and its gradient at the network's outputs."""

from __future__ import annotations

import math

from briskrl.algos.ppo.kernels.categorical import (
    _add_entropies,
    _begin_of,
    _log_probs,
    softmax,
)
from briskrl.compiler.jit import fastmath_helper, helper, inline_helper
from briskrl.compiler.math import exp_all, within


@inline_helper
def _surrogate(ratio, weighted_advantage, clip):
    """PPO's clipped gain, and its grad with respect to the log probability."""
    gain, limited = (
        ratio * weighted_advantage,
        within(1 - clip, ratio, 1 + clip) * weighted_advantage,
    )
    # Written so that NaN goes through.
    return (limited, 0.0) if gain > limited else (gain, gain)


@helper
def _logit_grads(ends, action, rows, bonus, space, out):
    """Write gradients of logits: those of log probabilities, times `grad`, and of entropies."""
    grad = space.log_prob_grad
    for d in range(ends.shape[0]):
        begin = _begin_of(ends, d)
        for i in range(begin, ends[d]):
            for r in range(rows):
                # Chances of 0, illegal or vanishing, leave a grad of 0.
                chance = space.chance[i, r] / space.total[d, r]
                log_chance = space.shifted[i, r] - space.log_total[d, r]
                out[r, i] = chance * (bonus * (log_chance + space.entropy[d, r]) - grad[r])
        for r in range(rows):
            out[r, begin + action[r, d]] += grad[r]


@inline_helper
def _value_error(value, old_value, returns, clip):
    """The squared error of a value, and half its grad.

    Where clipping around an older value makes the error larger, that is constant: its grad is 0.
    """
    error, moved = value - returns, value - old_value
    limited = old_value + math.copysign(clip, moved) - returns
    fixed = (clip > 0) & (abs(moved) > clip) & (limited * limited > error * error)
    return (limited * limited, 0.0) if fixed else (error * error, error)


@fastmath_helper
def _policy_loss(rows, old_log_prob, weight, advantage, settings, space, sums):
    """Fill in ratios and gradients of a block, and add to sums what concerns the policy."""
    clip, _, _, _, count = settings
    moved, ratio = space.moved[:rows], space.ratio[:rows]
    grad, log_prob = space.log_prob_grad, space.log_prob
    gains, divergence, clipped = 0.0, 0.0, 0
    for r in range(rows):
        moved[r] = log_prob[r] - old_log_prob[r]
    exp_all(moved, ratio)
    for r in range(rows):
        weighted_advantage = float(weight[r]) * advantage[r]
        divergence += ratio[r] - 1 - moved[r]
        if clip > 0:
            gain, up = _surrogate(ratio[r], weighted_advantage, clip)
            clipped += abs(ratio[r] - 1) > clip
        else:
            gain, up = weighted_advantage * log_prob[r], weighted_advantage
        gains += gain
        grad[r] = -up / count
    sums[0] -= gains
    sums[3] += divergence
    sums[4] += clipped


@fastmath_helper
def _value_loss(rows, value, old_value, returns, settings, out, sums):
    """Write gradients of values, and add to sums what concerns them."""
    _, clip, _, coef, count = settings
    factor = 2 * coef / count
    squares = 0.0
    for r in range(rows):
        squared, error = _value_error(float(value[r, 0]), old_value[r], returns[r], clip)
        out[r, 0] = factor * error
        squares += squared
    sums[1] += squares


@helper
def ppo_loss_grad(
    logits,
    value,
    mask,
    ends,
    action,
    old_log_prob,
    weight,
    old_value,
    advantage,
    returns,
    settings,
    space,
    logit_grad,
    value_grad,
    sums,
):
    """The on-policy loss's gradients with respect to a network's outputs, and its parts.

    The same loss as `losses.PolicyTerms.loss`. With p the probabilities of a choice, H its
    entropy and a the action: d log p[a] / d logit[i] = (i == a) - p[i] and
    d H / d logit[i] = -p[i] * (log p[i] + H).

    Args:
        logits: (B, S) float32, B at most ROWS; see sample_choices.
        value: (B, 1) float32.
        mask: (B, S) bool, or (0, 0) if every action is legal.
        ends: (D,) where each choice's logits end.
        action: (B, D) int64.
        old_log_prob: (B,) float32, see Minibatch.
        weight: (B,) float32, likewise.
        old_value: (B,) float32, the minibatch's value.
        advantage: (B,) float32.
        returns: (B,) float32.
        settings: (5,) float64: clip, value clip, entropy coefficient, value coefficient, and how
            many steps the loss is a mean of.
        space: Softmax to work in.
        logit_grad: (B, S) float32, written.
        value_grad: (B, 1) float32, written.
        sums: (5,) float64, added to: policy loss, squared value error, entropy, divergence, number
            of clipped steps.
    """
    rows = logits.shape[0]
    softmax(logits, mask, ends, 0, rows, space)
    _log_probs(ends, action, 0, rows, space)
    sums[2] += _add_entropies(ends, rows, space)
    _policy_loss(rows, old_log_prob, weight, advantage, settings, space, sums)
    _logit_grads(ends, action, rows, settings[2] / settings[4], space, logit_grad)
    _value_loss(rows, value, old_value, returns, settings, value_grad, sums)
