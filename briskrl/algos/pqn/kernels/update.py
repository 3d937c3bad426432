"""Compiled greedy actions, their values, and minibatch gradients of PQN.

The first two kernels run on a ThreadTeam: `kernel(job, thread)` is called by every thread with the
same packed Job and its own number, and takes parts of the rows until none are left. The torch
counterpart is `briskrl.algos.pqn.torch_engine`. Shapes: B steps of a minibatch among M steps of the
rollout, N observations, F numbers of each, A actions.
"""

from __future__ import annotations

from typing import Any, NamedTuple

from briskrl.algos.dqn.kernels.heads import (
    best_action,
    combine_dueling,
    outputs_at,
    split_dueling_grad,
)
from briskrl.compiler.jit import helper, kernel
from briskrl.compiler.math import flush_denormals, restore_denormals
from briskrl.compiler.packed_args import unpack
from briskrl.fused.kernels.layers import backward, forward, load_rows
from briskrl.fused.kernels.structs import TILE_ROWS, Workspace
from briskrl.parallel.kernels.queue import next_part

LOSS, Q_VALUE, SUMS = range(3)
"""Columns of GradientArgs.sums."""


class ThreadContext(NamedTuple):
    """What one thread computes with; passed packed."""

    net: Any
    heads: Any
    """QHeads."""
    input_transform: Any
    """InputTransform of observations."""
    work: Any
    """Workspace; `add_gradient` replaces its gradients by those of the part it computes."""


class GreedyArgs(NamedTuple):
    """Arguments of `greedy`."""

    obs: Any
    """(N, F)"""
    mask: Any
    """(N, A), or (0, 0) if every action is legal."""
    action: Any
    """(N,) int64, the best legal actions; written."""
    value: Any
    """(N,), their Q-values; written."""


@kernel
def greedy(job, thread):
    """Write the best legal actions and their Q-values."""
    queue, bounds, contexts, packed_args = unpack(job)
    args, ctx = unpack(packed_args), unpack(contexts[thread])
    control = flush_denormals()
    part = next_part(queue)
    while part >= 0:
        for begin in range(bounds[part], bounds[part + 1], TILE_ROWS):
            rows = min(TILE_ROWS, bounds[part + 1] - begin)
            load_rows(ctx.input_transform, args.obs, begin, rows, ctx.work)
            forward(ctx.net, ctx.net.layers, ctx.work, rows)
            combine_dueling(ctx.heads, ctx.work.out, rows)
            for r in range(rows):
                at = outputs_at(ctx.heads, r)
                best = best_action(ctx.heads, ctx.work.out, at, args.mask, begin + r)
                args.action[begin + r] = best
                args.value[begin + r] = ctx.work.out[at + best]
        part = next_part(queue)
    restore_denormals(control)


class GradientArgs(NamedTuple):
    """Arguments of `add_gradient`: B steps at `indices` among M, computed in P parts."""

    obs: Any
    """(M, F)"""
    action: Any
    """(M,)"""
    returns: Any
    """(M,)"""
    indices: Any
    """(B,)"""
    padded: Any
    """(P, G) gradients, written, see `collect_gradient`."""
    flat: Any
    """(P, N) likewise, or (0, N) if there is one part."""
    sums: Any
    """(P, SUMS) sums of losses and Q-values, added to."""


@kernel
def add_gradient(job, thread):
    """Compute the gradient of the mean loss, and sums of its terms, for parts of a minibatch."""
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
            combine_dueling(ctx.heads, work.out, rows)
            squared_error_grad(ctx.heads, args, indices, work, args.sums[part])
            split_dueling_grad(ctx.heads, work.out_grad, rows)
            backward(ctx.net, work, rows, begin == first)
        part = next_part(queue)
    restore_denormals(control)


@helper
def squared_error_grad(heads, args, indices, work, sums):
    """Write the gradient of half the squared error of the taken actions' Q-values."""
    out, grad = work.out, work.out_grad
    share = 1 / args.indices.shape[0]
    for r in range(indices.shape[0]):
        row, step = outputs_at(heads, r), indices[r]
        grad[row : row + heads.actions] = 0
        at = row + args.action[step]
        error = out[at] - args.returns[step]
        grad[at] = error * share
        sums[LOSS] += 0.5 * error * error
        sums[Q_VALUE] += out[at]
