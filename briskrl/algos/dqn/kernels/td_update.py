"""One update of a Q-network: TD targets, the loss's gradient, the gradient of all parameters, Adam.

The torch counterpart is `briskrl.algos.dqn.torch_engine`, with the losses in `briskrl.algos.losses`
(`td_target`, `huber`, `project_distribution`, `cross_entropy`, `quantile_huber`). Change both
together; `tests/algos/dqn/test_fused_gradients.py` compares them.

Shapes: K updates of B transitions each, F numbers of an observation, A actions, Z atoms of a return
distribution (1: the network puts out the mean itself).
"""

from __future__ import annotations

from typing import Any, NamedTuple

from briskrl.algos.dqn.kernels.heads import (
    atom_softmax,
    best_action,
    combine_dueling,
    outputs_at,
    project,
    quantile_loss_grad,
    split_dueling_grad,
)
from briskrl.compiler.jit import helper, inline_helper
from briskrl.compiler.math import within
from briskrl.fused.kernels.adam import apply_gradient, collect_gradient
from briskrl.fused.kernels.layers import backward, forward, load_rows
from briskrl.fused.kernels.packing import copy_numbers, pack
from briskrl.fused.kernels.structs import TILE_ROWS

(
    NUM_UPDATES,
    UPDATES_DONE,
    TARGET_PERIOD,
    DOUBLE,
    SPLIT_FROM,
    PRECOMPUTED,
    NUM_PARAMS,
) = range(7)
"""Elements of UpdateContext.params.

NUM_UPDATES is K, UPDATES_DONE the number of updates before these, TARGET_PERIOD the updates between
two refreshes of the target network (0: not refreshed here), DOUBLE whether the online network
chooses the next action, SPLIT_FROM the first update whose batch is computed in two halves.
PRECOMPUTED is the number of updates that `precompute_targets` has prepared; it holds for the next
call only."""


class Transitions(NamedTuple):
    """The arrays of a Batch."""

    obs: Any
    """(K, B, F)"""
    action: Any
    """(K, B)"""
    reward: Any
    """(K, B)"""
    next_obs: Any
    """(K, B, F)"""
    discount: Any
    """(K, B)"""
    weight: Any
    """(K, B)"""
    next_mask: Any
    """(K, B, A), or (1, 0, 0) if every action is legal."""


class UpdateContext(NamedTuple):
    """Everything that updates of a Q-network read and write."""

    online: Any
    """The Net that is trained."""
    target: Any
    """The target Net."""
    heads: Any
    """QHeads."""
    input_transform: Any
    """InputTransform of observations."""
    optimizer: Any
    batch: Any
    """Transitions."""
    noise: Any
    """(K, 2, M) noise of online and target network; M is 0 without noisy layers."""
    params: Any
    """(NUM_PARAMS,) int64."""
    tau: Any
    """(1,) share of the way to the online network that the target network moves."""
    target_q: Any
    """(K, B, A * Z) outputs of the target network for next_obs."""
    targets: Any
    """(K, B, Z) TD targets: returns, distributions or quantiles of them."""
    errors: Any
    """(K, B) absolute TD errors, or losses of distributions; written."""
    totals: Any
    """(2,) float64 sum of losses and their number, added to."""
    full_gradient: Any
    """Gradient buffers for a batch that is computed as a whole, by the first workspace."""
    half_gradients: Any
    """Two sets of gradient buffers for batches in two halves, by the other workspaces."""
    mailbox: Any
    """Counters that two threads share, see `paired_threads`."""


@helper
def target_forward(context, work, k, first, rows):
    """Write target_q for rows first..first+rows-1 of update k."""
    target, heads = context.target, context.heads
    load_rows(context.input_transform, context.batch.next_obs[k], first, rows, work)
    forward(target, target.layers, work, rows)
    combine_dueling(heads, work.out, rows)
    width = context.target_q.shape[2]
    for r in range(rows):
        at = outputs_at(heads, r)
        copy_numbers(context.target_q[k, first + r], work.out[at : at + width])


@helper
def compute_targets(context, work, k, first, rows):
    """Write the TD targets of rows first..first+rows-1 of update k."""
    online, heads, batch = context.online, context.heads, context.batch
    atoms = heads.support.shape[0]
    # Without masks this is a matrix of no rows.
    mask = batch.next_mask[min(k, batch.next_mask.shape[0] - 1)]
    if k >= context.params[PRECOMPUTED]:
        target_forward(context, work, k, first, rows)
    double = context.params[DOUBLE] != 0
    if double:
        load_rows(context.input_transform, batch.next_obs[k], first, rows, work)
        forward(online, online.layers, work, rows)
        combine_dueling(heads, work.out, rows)
    for r in range(rows):
        target_row, targets = context.target_q[k, first + r], context.targets[k, first + r]
        if double:
            next_action = best_action(heads, work.out, outputs_at(heads, r), mask, first + r)
        else:
            next_action = best_action(heads, target_row, 0, mask, first + r)
        next_q = target_row[next_action * atoms : (next_action + 1) * atoms]
        reward, discount = batch.reward[k, first + r], batch.discount[k, first + r]
        if atoms == 1 or heads.quantiles != 0:
            for z in range(atoms):
                targets[z] = reward + discount * next_q[z]
        else:
            atom_softmax(next_q, next_q)
            project(heads, next_q, reward, discount, targets)


@helper
def dqn_loss_grad(context, work, k, first, rows):
    """Write the gradient of the loss at the network's outputs, and the errors.

    Without a distribution it is the Huber loss, whose gradient is the error clipped to +-1. With a
    categorical distribution it is the cross entropy of softmax p against the target t, whose
    gradient is p - t; with quantiles it is the quantile Huber loss.
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
        elif heads.quantiles != 0:
            context.errors[k, first + r] = quantile_loss_grad(
                out[at : at + atoms], targets, weight * share, grad[at : at + atoms]
            )
        else:
            logits, probs = out[at : at + atoms], grad[at : at + atoms]
            normalizer = atom_softmax(logits, probs)
            cross_entropy = 0.0
            for z in range(atoms):
                cross_entropy -= targets[z] * (logits[z] - normalizer)
                probs[z] = (probs[z] - targets[z]) * (weight * share)
            context.errors[k, first + r] = cross_entropy


@helper
def mean_loss(context, k):
    """The mean loss of update k, computed from its errors."""
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
    """Compute the gradient of rows begin..end-1 of update k into `work`; see `backward`."""
    if begin == end:
        work.gradient[:] = 0
        work.flat[:] = 0
    has_targets = k < context.params[PRECOMPUTED] and context.params[DOUBLE] == 0
    for first in range(begin, end, TILE_ROWS):
        rows = min(TILE_ROWS, end - first)
        if not has_targets:
            compute_targets(context, work, k, first, rows)
        load_rows(context.input_transform, context.batch.obs[k], first, rows, work)
        forward(context.online, context.online.layers, work, rows)
        combine_dueling(context.heads, work.out, rows)
        dqn_loss_grad(context, work, k, first, rows)
        split_dueling_grad(context.heads, work.out_grad, rows)
        backward(context.online, work, rows, first == begin, middle)


@inline_helper
def half_grad(context, work, k, half):
    """Compute the gradient of the first or second half (0 or 1) of update k's batch."""
    size = context.batch.obs.shape[1]
    rows_grad(context, work, k, size * half // 2, size * (half + 1) // 2, 0)


@helper
def use_noise(net, noise):
    """Put new noise into a network's noisy layers."""
    if noise.shape[0] > 0:
        copy_numbers(net.noise, noise)
        pack(net)


@helper
def apply_parts(context, parts, side):
    """Add up the gradients of set `side` of `parts` and apply them with Adam."""
    gradients = context.optimizer.gradients
    collect_gradient(context.online, parts.padded[side], parts.flat[side], gradients)
    apply_gradient(context.optimizer)
    pack(context.online)
