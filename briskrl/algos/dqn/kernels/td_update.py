"""What an update of a value network computes: goals, gradients, its gradient, the step.

Shapes: K updates of B transitions each, A actions, Z atoms of a return distribution (1: its mean
alone).
"""

from __future__ import annotations

from typing import Any, NamedTuple

from briskrl.algos.dqn.kernels.heads import (
    best_action,
    combine_dueling,
    outputs_at,
    project,
    softmax,
    split_dueling_grad,
)
from briskrl.compiler.jit import helper, inline_helper
from briskrl.compiler.math import within
from briskrl.fused.kernels.adam import apply_gradient, collect_gradient
from briskrl.fused.kernels.layers import backward, forward, load_rows
from briskrl.fused.kernels.packing import copy_numbers, pack
from briskrl.fused.kernels.structs import TILE_ROWS

UPDATES, DONE, PERIOD, DOUBLE, WHOLE, PRECOMPUTED, PREFETCHED, BEGUN, NUM_RULES = range(9)
"""Rules: K, updates done before, updates between refreshes of the target (0: none here), whether
the online net chooses the target's action, from which update on batches are split; and what holds
for the next round of updates alone: for how many of them `precompute_targets` did its part, the
number under which they were announced, or 0, and the number under which they were begun."""


class Transitions(NamedTuple):
    """A Batch as kernels see it."""

    obs: Any
    """(K, B, F)"""
    action: Any
    """(K, B)"""
    reward: Any
    next_obs: Any
    discount: Any
    weight: Any
    next_mask: Any
    """(K, B, A), or (1, 0, 0) if every action is legal."""


class UpdateContext(NamedTuple):
    """Everything that updates of a value network are about."""

    online: Any
    """The Net that learns."""
    target: Any
    """The Net that targets come from."""
    heads: Any
    reading: Any
    optimizer: Any
    batch: Any
    """Transitions; the first K of them are learnt from."""
    noise: Any
    """(K, 2, M) noise of online and target net; M is 0 without noisy layers."""
    rules: Any
    """(RULES,) int64"""
    ahead: Any
    """(K, B, A * Z) what the target net says of the next observations."""
    targets: Any
    """(K, B, Z) what transitions teach."""
    errors: Any
    """(K, B) size of each transition's error, written."""
    totals: Any
    """(2,) float64 sum of losses and their number, added to."""
    whole: Any
    """The gradient of a batch that is computed in one part, the first Work's."""
    parts: Any
    """Those of the parts of a batch that is split, the other Works'; two sides take turns."""
    board: Any
    """Where two threads meet, see `paired_gradient`."""


@helper
def target_forward(context, work, k, first, rows):
    """Write what the target net says of rows first..first+rows-1 of update k."""
    target, heads = context.target, context.heads
    load_rows(context.reading, context.batch.next_obs[k], first, rows, work)
    forward(target, target.layers, work, rows)
    combine_dueling(heads, work.out, rows)
    width = context.ahead.shape[2]
    for r in range(rows):
        at = outputs_at(heads, r)
        copy_numbers(context.ahead[k, first + r], work.out[at : at + width])


@helper
def compute_targets(context, work, k, first, rows):
    """Write what rows first..first+rows-1 of update k teach."""
    online, heads, batch = context.online, context.heads, context.batch
    atoms = heads.support.shape[0]
    # Without masks this is a matrix of no rows.
    mask = batch.next_mask[min(k, batch.next_mask.shape[0] - 1)]
    if k >= context.rules[PRECOMPUTED]:
        target_forward(context, work, k, first, rows)
    double = context.rules[DOUBLE] != 0
    if double:
        load_rows(context.reading, batch.next_obs[k], first, rows, work)
        forward(online, online.layers, work, rows)
        combine_dueling(heads, work.out, rows)
    for r in range(rows):
        said, targets = context.ahead[k, first + r], context.targets[k, first + r]
        if double:
            chosen = best_action(heads, work.out, outputs_at(heads, r), mask, first + r)
        else:
            chosen = best_action(heads, said, 0, mask, first + r)
        logits = said[chosen * atoms : (chosen + 1) * atoms]
        reward, discount = batch.reward[k, first + r], batch.discount[k, first + r]
        if atoms == 1:
            targets[0] = reward + discount * logits[0]
        else:
            softmax(logits, logits)
            project(heads, logits, reward, discount, targets)


@helper
def loss_grad(context, work, k, first, rows):
    """Write the loss's gradients at the heads and the errors.

    The mean alone: the Huber loss, whose grad is the error clipped to +-1. A distribution: the
    cross entropy of softmax p against the goal t, whose grad is p - t.
    """
    heads, batch = context.heads, context.batch
    atoms = heads.support.shape[0]
    out, grad = work.out, work.out_grad
    share = 1 / batch.obs.shape[1]
    for r in range(rows):
        row = heads.advantage_at + r * heads.advantage_row
        grad[row : row + heads.actions * atoms] = 0
        at = row + batch.action[k, first + r] * atoms
        weight, targets = batch.weight[k, first + r], context.targets[k, first + r]
        if atoms == 1:
            error = out[at] - targets[0]
            grad[at] = within(-1.0, error, 1.0) * (weight * share)
            context.errors[k, first + r] = abs(error)
        else:
            logits, chances = out[at : at + atoms], grad[at : at + atoms]
            normalizer = softmax(logits, chances)
            surprise = 0.0
            for z in range(atoms):
                surprise -= targets[z] * (logits[z] - normalizer)
                chances[z] = (chances[z] - targets[z]) * (weight * share)
            context.errors[k, first + r] = surprise


@helper
def mean_loss(context, k):
    """The mean loss of update k, told from its errors."""
    errors, weight = context.errors[k], context.batch.weight[k]
    loss = 0.0
    if context.heads.support.shape[0] == 1:
        for r in range(errors.shape[0]):
            error = errors[r]
            loss += weight[r] * (0.5 * error * error if error < 1 else error - 0.5)
    else:
        for r in range(errors.shape[0]):
            loss += weight[r] * errors[r]
    return loss / errors.shape[0]


@helper
def rows_grad(context, work, k, begin, end, middle):
    """Compute what rows begin..end-1 of update k add to its gradient; see `backward`."""
    if begin == end:
        work.gradient[:] = 0
        work.flat[:] = 0
    foretold = k < context.rules[PRECOMPUTED] and context.rules[DOUBLE] == 0
    for first in range(begin, end, TILE_ROWS):
        rows = min(TILE_ROWS, end - first)
        if not foretold:
            compute_targets(context, work, k, first, rows)
        load_rows(context.reading, context.batch.obs[k], first, rows, work)
        forward(context.online, context.online.layers, work, rows)
        combine_dueling(context.heads, work.out, rows)
        loss_grad(context, work, k, first, rows)
        split_dueling_grad(context.heads, work.out_grad, rows)
        backward(context.online, work, rows, first == begin, middle)


@inline_helper
def half_grad(context, work, k, half):
    """Compute one half of update k's gradient."""
    size = context.batch.obs.shape[1]
    rows_grad(context, work, k, size * half // 2, size * (half + 1) // 2, 0)


@helper
def use_noise(net, noise):
    """Mix new noise into a network's weights."""
    if noise.shape[0] > 0:
        copy_numbers(net.noise, noise)
        pack(net)


@helper
def apply_parts(context, parts, side):
    """Take the step that the parts of a gradient make together."""
    gradients = context.optimizer.gradients
    collect_gradient(context.online, parts.padded[side], parts.flat[side], gradients)
    apply_gradient(context.optimizer)
    pack(context.online)
