"""The PPO loss and its gradient at the network's outputs.

The torch counterpart is `briskrl.algos.losses`: `surrogate`, `value_error` and `PolicyTerms.loss`.
Change both together; `tests/algos/ppo/test_fused_gradients.py` compares it with autograd.
"""

from __future__ import annotations

import math
from typing import Any, NamedTuple

from briskrl.algos.ppo.kernels.categorical import (
    block_entropies,
    block_log_probs,
    first_logit,
    masked_softmax,
)
from briskrl.compiler.jit import fastmath_helper, helper, inline_helper
from briskrl.compiler.math import exp_all, within

CLIP, CLIP_VALUE, ENTROPY_COEF, VALUE_COEF, COUNT, NUM_SETTINGS = range(6)
"""Elements of the settings: clip range, value clip range (0: off), coefficients of the entropy
bonus and the value loss, and the number of steps that the loss is the mean of."""

POLICY_LOSS, VALUE_LOSS, ENTROPY, APPROX_KL, CLIPPED, NUM_SUMS = range(6)
"""Elements of the sums over steps, in the order of `ppo.engine.METRICS`."""


class HeadOutputs(NamedTuple):
    """What the two heads of the network put out for B rows, or the loss's gradient there."""

    logits: Any
    """(B, S) float32."""
    value: Any
    """(B, 1) float32."""


class MinibatchTile(NamedTuple):
    """The steps of one tile, at most ROWS, gathered from a Minibatch."""

    mask: Any
    """(B, S) bool, or (0, S) if every action is legal."""
    action: Any
    """(B, D) int64."""
    old_log_prob: Any
    """(B,) float32, like the following ones."""
    weight: Any
    old_value: Any
    advantage: Any
    returns: Any


@inline_helper
def _surrogate(ratio, weighted_advantage, clip):
    """The clipped surrogate objective and its gradient with respect to the log probability."""
    gain, limited = (
        ratio * weighted_advantage,
        within(1 - clip, ratio, 1 + clip) * weighted_advantage,
    )
    # Compared in this order so that NaN is not clipped away.
    return (limited, 0.0) if gain > limited else (gain, gain)


@inline_helper
def _value_error(value, old_value, returns, clip):
    """The squared error of a value, and half its gradient.

    Where clipping around the old value gives the larger error, that error is constant and its
    gradient 0.
    """
    error, moved = value - returns, value - old_value
    limited = old_value + math.copysign(clip, moved) - returns
    fixed = (clip > 0) & (abs(moved) > clip) & (limited * limited > error * error)
    return (limited * limited, 0.0) if fixed else (error * error, error)


@fastmath_helper
def _policy_loss(rows, old_log_prob, weight, advantage, settings, buffers, sums):
    """Fill ratios and d loss / d log_prob of a block, and add to the policy's sums."""
    clip, count = settings[CLIP], settings[COUNT]
    log_ratio, ratio = buffers.log_ratio[:rows], buffers.ratio[:rows]
    grad, log_prob = buffers.log_prob_grad, buffers.log_prob
    gains, divergence, clipped = 0.0, 0.0, 0
    for r in range(rows):
        log_ratio[r] = log_prob[r] - old_log_prob[r]
    exp_all(log_ratio, ratio)
    for r in range(rows):
        weighted_advantage = float(weight[r]) * advantage[r]
        divergence += ratio[r] - 1 - log_ratio[r]
        if clip > 0:
            gain, gain_grad = _surrogate(ratio[r], weighted_advantage, clip)
            clipped += abs(ratio[r] - 1) > clip
        else:
            gain, gain_grad = weighted_advantage * log_prob[r], weighted_advantage
        gains += gain
        grad[r] = -gain_grad / count
    sums[POLICY_LOSS] -= gains
    sums[APPROX_KL] += divergence
    sums[CLIPPED] += clipped


@fastmath_helper
def _value_loss(rows, value, old_value, returns, settings, value_grad, sums):
    """Write the gradients of values, and add to the sum of squared errors."""
    clip, factor = settings[CLIP_VALUE], 2 * settings[VALUE_COEF] / settings[COUNT]
    squares = 0.0
    for r in range(rows):
        squared, error = _value_error(float(value[r, 0]), old_value[r], returns[r], clip)
        value_grad[r, 0] = factor * error
        squares += squared
    sums[VALUE_LOSS] += squares


@helper
def _logit_grads(ends, action, rows, entropy_factor, buffers, logit_grad):
    """Write the gradients of logits from those of log probabilities and entropies."""
    grad = buffers.log_prob_grad
    for d in range(ends.shape[0]):
        begin = first_logit(ends, d)
        for i in range(begin, ends[d]):
            for r in range(rows):
                # A probability of 0 (illegal or vanishing) gives a gradient of 0.
                prob = buffers.exp_shifted[i, r] / buffers.total[d, r]
                log_prob = buffers.shifted[i, r] - buffers.log_total[d, r]
                entropy_grad = entropy_factor * (log_prob + buffers.entropy[d, r])
                logit_grad[r, i] = prob * (entropy_grad - grad[r])
        for r in range(rows):
            logit_grad[r, begin + action[r, d]] += grad[r]


@helper
def ppo_loss_grad(outputs, tile, ends, settings, buffers, grads, sums):
    """Write the gradient of the PPO loss at the network's outputs, and add up the loss's terms.

    The loss is the mean over steps of

        policy_loss + value_coef * value_loss - entropy_coef * entropy

    With p the probabilities of one action dimension, H its entropy and a the action:
    d log p[a] / d logit[i] = (i == a) - p[i] and d H / d logit[i] = -p[i] * (log p[i] + H).

    Args:
        outputs: HeadOutputs of B rows.
        tile: MinibatchTile of the same rows.
        ends: (D,) where the logits of each action dimension end.
        settings: (NUM_SETTINGS,) float64.
        buffers: SoftmaxBuffers.
        grads: HeadOutputs, written.
        sums: (NUM_SUMS,) float64, added to.
    """
    rows = outputs.logits.shape[0]
    masked_softmax(outputs.logits, tile.mask, ends, 0, rows, buffers)
    block_log_probs(ends, tile.action, 0, rows, buffers)
    sums[ENTROPY] += block_entropies(ends, rows, buffers)
    _policy_loss(rows, tile.old_log_prob, tile.weight, tile.advantage, settings, buffers, sums)
    entropy_factor = settings[ENTROPY_COEF] / settings[COUNT]
    _logit_grads(ends, tile.action, rows, entropy_factor, buffers, grads.logits)
    _value_loss(rows, outputs.value, tile.old_value, tile.returns, settings, grads.value, sums)
