"""Compiled acting, values, log probabilities and minibatch gradients of an actor-critic.

The first four kernels run on a ThreadTeam: `kernel(job, thread)` is called by every thread with the
same packed Job and its own number, and takes parts of the rows until none are left. The loss itself
is in `loss.py`. Shapes: B steps of a minibatch among M steps of the rollouts, N environments, F
numbers of an observation, D action dimensions, S logits of all dimensions together.
"""

from __future__ import annotations

from typing import Any, NamedTuple

from briskrl.algos.ppo.kernels.categorical import log_probs, sample_actions
from briskrl.algos.ppo.kernels.loss import HeadOutputs, MinibatchTile, ppo_loss_grad
from briskrl.compiler.jit import helper, kernel
from briskrl.compiler.math import flush_denormals, restore_denormals
from briskrl.compiler.packed_args import unpack
from briskrl.fused.kernels.adam import apply_gradient, collect_gradient
from briskrl.fused.kernels.layers import backward, forward, load_rows
from briskrl.fused.kernels.packing import pack
from briskrl.fused.kernels.structs import TILE_ROWS, Workspace
from briskrl.parallel.kernels.queue import next_part


class ActorCriticHeads(NamedTuple):
    """Where a Workspace holds the outputs of policy and value, and which layers lead there."""

    policy_at: int
    """Offset of the first row's logits."""
    policy_row: int
    """Distance between rows."""
    value_at: int
    value_row: int
    policy_layers: Any
    """The rows of a Net's layer table that the policy needs."""
    value_layers: Any
    ends: Any
    """(D,) where the logits of each action dimension end."""


class ThreadContext(NamedTuple):
    """What one thread computes with; passed packed."""

    net: Any
    heads: Any
    """ActorCriticHeads."""
    input_transform: Any
    """InputTransform of observations."""
    work: Any
    """Workspace; `add_gradient` replaces its gradients by those of the part it computes."""
    buffers: Any
    """SoftmaxBuffers."""
    tile: Any
    """MinibatchTile of TILE_ROWS rows."""


class ActArgs(NamedTuple):
    """Arguments of `act`."""

    obs: Any
    """(N, F)"""
    mask: Any
    """(N, S), or (0, 0) if every action is legal."""
    draws: Any
    """(N, D) uniform in [0, 1)."""
    action: Any
    """(N, D), written."""
    log_prob: Any
    """(N,), written."""


@kernel
def act(job, thread):
    """Sample actions and write them with their log probabilities."""
    queue, bounds, contexts, packed_args = unpack(job)
    args, ctx = unpack(packed_args), unpack(contexts[thread])
    control = flush_denormals()
    part = next_part(queue)
    while part >= 0:
        for begin in range(bounds[part], bounds[part + 1], TILE_ROWS):
            end = min(begin + TILE_ROWS, bounds[part + 1])
            rows, at, wide = end - begin, ctx.heads.policy_at, ctx.heads.policy_row
            policy_forward(ctx, args.obs, begin, rows)
            sample_actions(
                ctx.work.out[at : at + rows * wide].reshape(rows, wide),
                args.mask[begin:end],
                ctx.heads.ends,
                args.draws[begin:end],
                args.action[begin:end],
                args.log_prob[begin:end],
                ctx.buffers,
            )
        part = next_part(queue)
    restore_denormals(control)


class LogProbArgs(NamedTuple):
    """Arguments of `action_log_probs`."""

    obs: Any
    """(M, F)"""
    mask: Any
    """(M, S), or (0, 0) if every action is legal."""
    action: Any
    """(M, D)"""
    log_prob: Any
    """(M,), written."""


@kernel
def action_log_probs(job, thread):
    """Write the log probabilities of given actions."""
    queue, bounds, contexts, packed_args = unpack(job)
    args, ctx = unpack(packed_args), unpack(contexts[thread])
    control = flush_denormals()
    part = next_part(queue)
    while part >= 0:
        for begin in range(bounds[part], bounds[part + 1], TILE_ROWS):
            end = min(begin + TILE_ROWS, bounds[part + 1])
            rows, at, wide = end - begin, ctx.heads.policy_at, ctx.heads.policy_row
            policy_forward(ctx, args.obs, begin, rows)
            log_probs(
                ctx.work.out[at : at + rows * wide].reshape(rows, wide),
                args.mask[begin:end],
                ctx.heads.ends,
                args.action[begin:end],
                args.log_prob[begin:end],
                ctx.buffers,
            )
        part = next_part(queue)
    restore_denormals(control)


@helper
def policy_forward(ctx, obs, begin, rows):
    """Compute the logits of observations begin..begin+rows-1."""
    load_rows(ctx.input_transform, obs, begin, rows, ctx.work)
    forward(ctx.net, ctx.heads.policy_layers, ctx.work, rows)


class ValueArgs(NamedTuple):
    """Arguments of `values`."""

    obs: Any
    """(M, F)"""
    values: Any
    """(M,), written."""


@kernel
def values(job, thread):
    """Write the value estimates of observations."""
    queue, bounds, contexts, packed_args = unpack(job)
    (obs, values), ctx = unpack(packed_args), unpack(contexts[thread])
    control = flush_denormals()
    part = next_part(queue)
    while part >= 0:
        for begin in range(bounds[part], bounds[part + 1], TILE_ROWS):
            rows = min(TILE_ROWS, bounds[part + 1] - begin)
            load_rows(ctx.input_transform, obs, begin, rows, ctx.work)
            forward(ctx.net, ctx.heads.value_layers, ctx.work, rows)
            for r in range(rows):
                values[begin + r] = ctx.work.out[ctx.heads.value_at + r * ctx.heads.value_row]
        part = next_part(queue)
    restore_denormals(control)


class GradientArgs(NamedTuple):
    """Arguments of `add_gradient`: B steps at `indices` among M, computed in P parts."""

    obs: Any
    """(M, F)"""
    mask: Any
    """(M, S), or (0, 0) if every action is legal."""
    action: Any
    """(M, D)"""
    old_log_prob: Any
    """(M,), like the next three."""
    weight: Any
    value: Any
    returns: Any
    indices: Any
    """(B,)"""
    advantage: Any
    """(B,)"""
    settings: Any
    """Settings of the loss, see `loss.CLIP`."""
    padded: Any
    """(P, G) gradients, written, see `collect_gradient`."""
    flat: Any
    """(P, N) likewise, or (0, N) if there is one part."""
    sums: Any
    """(P, 5) sums of the loss's terms, added to, see `loss.POLICY_LOSS`."""


@kernel
def add_gradient(job, thread):
    """Compute the gradient of the loss, and the sums of its terms, for parts of a minibatch."""
    queue, bounds, contexts, packed_args = unpack(job)
    args, ctx = unpack(packed_args), unpack(contexts[thread])
    control = flush_denormals()
    part = next_part(queue)
    while part >= 0:
        flat = args.flat[part] if args.flat.shape[0] > 0 else ctx.work.flat
        work = Workspace(ctx.work.out, ctx.work.out_grad, args.padded[part], flat)
        first, last = bounds[part], bounds[part + 1]
        if first == last:
            work.gradient[:] = 0
            work.flat[:] = 0
        for begin in range(first, last, TILE_ROWS):
            rows = min(TILE_ROWS, last - begin)
            indices = args.indices[begin : begin + rows]
            load_rows(ctx.input_transform, args.obs, 0, rows, work, indices)
            forward(ctx.net, ctx.net.layers, work, rows)
            gather_tile(args, indices, begin, ctx.tile)
            tile_loss_grad(ctx, args, rows, args.sums[part])
            backward(ctx.net, work, rows, begin == first)
        part = next_part(queue)
    restore_denormals(control)


@helper
def gather_tile(args, indices, begin, tile):
    """Copy the steps at `indices` into a tile; their advantages begin at `begin`."""
    for r in range(indices.shape[0]):
        at = indices[r]
        for d in range(args.action.shape[1]):
            tile.action[r, d] = args.action[at, d]
        for i in range(args.mask.shape[1]):
            tile.mask[r, i] = args.mask[at, i]
        tile.old_log_prob[r] = args.old_log_prob[at]
        tile.weight[r] = args.weight[at]
        tile.old_value[r] = args.value[at]
        tile.advantage[r] = args.advantage[begin + r]
        tile.returns[r] = args.returns[at]


@helper
def tile_loss_grad(ctx, args, rows, sums):
    """Write the loss's gradient at the heads for the first `rows` rows of the thread's tile."""
    heads, tile = ctx.heads, ctx.tile
    masked = rows if args.mask.shape[0] > 0 else 0
    steps = MinibatchTile(
        tile.mask[:masked],
        tile.action[:rows],
        tile.old_log_prob[:rows],
        tile.weight[:rows],
        tile.old_value[:rows],
        tile.advantage[:rows],
        tile.returns[:rows],
    )
    outputs = head_views(heads, ctx.work.out, rows)
    grads = head_views(heads, ctx.work.out_grad, rows)
    ppo_loss_grad(outputs, steps, heads.ends, args.settings, ctx.buffers, grads, sums)


@helper
def head_views(heads, out, rows):
    """HeadOutputs of the first rows, as views of a workspace's outputs or their gradients."""
    policy_end = heads.policy_at + rows * heads.policy_row
    value_end = heads.value_at + rows * heads.value_row
    return HeadOutputs(
        out[heads.policy_at : policy_end].reshape(rows, heads.policy_row),
        out[heads.value_at : value_end].reshape(rows, heads.value_row),
    )


class Trainable(NamedTuple):
    """A network and its optimizer; passed packed."""

    net: Any
    optimizer: Any


@kernel
def take_step(trainable, padded, flat):
    """Add up the gradients of all parts, see `collect_gradient`, and apply them with Adam."""
    net, optimizer = unpack(trainable)
    control = flush_denormals()
    collect_gradient(net, padded, flat, optimizer.gradients)
    apply_gradient(optimizer)
    pack(net)
    restore_denormals(control)


@kernel
def add_up_parts(trainable, padded, flat):
    """Add up the gradients of all parts, see `collect_gradient`."""
    net, optimizer = unpack(trainable)
    control = flush_denormals()
    collect_gradient(net, padded, flat, optimizer.gradients)
    restore_denormals(control)


@kernel
def take_collected_step(trainable):
    """Apply the flat gradient with Adam, after `add_up_parts`."""
    net, optimizer = unpack(trainable)
    control = flush_denormals()
    apply_gradient(optimizer)
    pack(net)
    restore_denormals(control)
