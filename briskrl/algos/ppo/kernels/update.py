"""Compiled pieces of policy learning: acting, values, the gradient of a minibatch.

Most of it is work for a team: called with an Errand, held, and the number of a member, which takes
parts of the rows as long as there are any. Shapes: B steps of a minibatch, M of a memory, N
environments, D choices at once, S logits of all of them together.
"""

from __future__ import annotations

from typing import Any, NamedTuple

from briskrl.algos.ppo.kernels.categorical import log_probs, sample_actions
from briskrl.algos.ppo.kernels.loss import ppo_loss_grad
from briskrl.compiler.jit import helper, kernel
from briskrl.compiler.math import flush_denormals, restore_denormals
from briskrl.compiler.packed_args import unpack
from briskrl.fused.kernels.adam import apply_gradient, collect_gradient
from briskrl.fused.kernels.layers import backward, forward, load_rows
from briskrl.fused.kernels.packing import pack
from briskrl.fused.kernels.structs import TILE_ROWS, Workspace
from briskrl.parallel.kernels.queue import next_part


class Heads(NamedTuple):
    """Where policy and value are in a Work, and which layers lead there."""

    policy_at: int
    policy_row: int
    value_at: int
    value_row: int
    policy_layers: Any
    """The part of a Net's table that the policy needs."""
    value_layers: Any
    ends: Any
    """(D,) where each choice's logits end."""


class ThreadContext(NamedTuple):
    """What one thread computes with; it is held."""

    net: Any
    heads: Any
    reading: Any
    work: Any
    """Where it computes; gradients go where parts have theirs, see `add_gradient`."""
    space: Any
    """Where `algos.choices` computes."""
    tile: Any
    """Room for what is Known of one tile's steps."""


class ActArgs(NamedTuple):
    """What `act` is about."""

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
def act(job, member):
    """Draw actions, and tell their log probabilities."""
    board, bounds, members, subject = unpack(job)
    about, own = unpack(subject), unpack(members[member])
    control = flush_denormals()
    part = next_part(board)
    while part >= 0:
        for begin in range(bounds[part], bounds[part + 1], TILE_ROWS):
            end = min(begin + TILE_ROWS, bounds[part + 1])
            rows, at, wide = end - begin, own.heads.policy_at, own.heads.policy_row
            policy_forward(own, about.obs, begin, rows)
            sample_actions(
                own.work.out[at : at + rows * wide].reshape(rows, wide),
                about.mask[begin:end],
                own.heads.ends,
                about.draws[begin:end],
                about.action[begin:end],
                about.log_prob[begin:end],
                own.space,
            )
        part = next_part(board)
    restore_denormals(control)


class LogProbArgs(NamedTuple):
    """What `action_log_probs` is about."""

    obs: Any
    """(M, F)"""
    mask: Any
    """(M, S), or (0, 0) if every action is legal."""
    action: Any
    """(M, D)"""
    log_prob: Any
    """(M,), written."""


@kernel
def action_log_probs(job, member):
    """Tell the log probabilities of actions that were taken before."""
    board, bounds, members, subject = unpack(job)
    about, own = unpack(subject), unpack(members[member])
    control = flush_denormals()
    part = next_part(board)
    while part >= 0:
        for begin in range(bounds[part], bounds[part + 1], TILE_ROWS):
            end = min(begin + TILE_ROWS, bounds[part + 1])
            rows, at, wide = end - begin, own.heads.policy_at, own.heads.policy_row
            policy_forward(own, about.obs, begin, rows)
            log_probs(
                own.work.out[at : at + rows * wide].reshape(rows, wide),
                about.mask[begin:end],
                own.heads.ends,
                about.action[begin:end],
                about.log_prob[begin:end],
                own.space,
            )
        part = next_part(board)
    restore_denormals(control)


@helper
def policy_forward(own, obs, begin, rows):
    """Compute the policy's logits for as many observations."""
    load_rows(own.reading, obs, begin, rows, own.work)
    forward(own.net, own.heads.policy_layers, own.work, rows)


class ValueArgs(NamedTuple):
    """What `values` is about."""

    obs: Any
    """(M, F)"""
    values: Any
    """(M,), written."""


@kernel
def values(job, member):
    """Tell the values of observations."""
    board, bounds, members, subject = unpack(job)
    (obs, values), own = unpack(subject), unpack(members[member])
    control = flush_denormals()
    part = next_part(board)
    while part >= 0:
        for begin in range(bounds[part], bounds[part + 1], TILE_ROWS):
            rows = min(TILE_ROWS, bounds[part + 1] - begin)
            load_rows(own.reading, obs, begin, rows, own.work)
            forward(own.net, own.heads.value_layers, own.work, rows)
            for r in range(rows):
                values[begin + r] = own.work.out[own.heads.value_at + r * own.heads.value_row]
        part = next_part(board)
    restore_denormals(control)


class MinibatchTile(NamedTuple):
    """What is known of the steps of one tile, see Minibatch; T is TILE_ROWS."""

    mask: Any
    """(T, S)"""
    action: Any
    """(T, D)"""
    old_log_prob: Any
    """(T,), as are the others."""
    weight: Any
    value: Any
    returns: Any


class GradientArgs(NamedTuple):
    """What `add_gradient` is about: B steps that were chosen among M, in P parts."""

    obs: Any
    """(M, F)"""
    mask: Any
    """(M, S), or (0, 0) if every action is legal."""
    action: Any
    """(M, D)"""
    old_log_prob: Any
    """(M,), as are the next ones."""
    weight: Any
    value: Any
    returns: Any
    chosen: Any
    """(B,) which of them."""
    advantage: Any
    """(B,)"""
    settings: Any
    """See `policy_grads`."""
    padded: Any
    """(P, G) gradients, written, see `collect_gradient`."""
    flat: Any
    """(P, N) likewise, or (0, N) if there is one part."""
    sums: Any
    """(P, 5) added to, see `policy_grads`."""


@kernel
def add_gradient(job, member):
    """Compute the gradients of parts of a minibatch, and what its loss is made of."""
    board, bounds, members, subject = unpack(job)
    about, own = unpack(subject), unpack(members[member])
    control = flush_denormals()
    part = next_part(board)
    while part >= 0:
        flat = about.flat[part] if about.flat.shape[0] > 0 else own.work.flat
        work = Workspace(own.work.out, own.work.out_grad, about.padded[part], flat)
        first, last = bounds[part], bounds[part + 1]
        if first == last:
            work.gradient[:] = 0
            work.flat[:] = 0
        for begin in range(first, last, TILE_ROWS):
            rows = min(TILE_ROWS, last - begin)
            chosen = about.chosen[begin : begin + rows]
            load_rows(own.reading, about.obs, 0, rows, work, chosen)
            forward(own.net, own.net.layers, work, rows)
            gather(about, chosen, own.tile)
            loss_grad(own, about, begin, rows, about.sums[part])
            backward(own.net, work, rows, begin == first)
        part = next_part(board)
    restore_denormals(control)


@helper
def gather(about, chosen, tile):
    """Bring together what is known of chosen steps, at most a tile of them."""
    for r in range(chosen.shape[0]):
        at = chosen[r]
        for d in range(about.action.shape[1]):
            tile.action[r, d] = about.action[at, d]
        for i in range(about.mask.shape[1]):
            tile.mask[r, i] = about.mask[at, i]
        tile.old_log_prob[r] = about.old_log_prob[at]
        tile.weight[r] = about.weight[at]
        tile.value[r] = about.value[at]
        tile.returns[r] = about.returns[at]


@helper
def loss_grad(own, about, begin, rows, sums):
    """Write the loss's gradients at the heads, of the tile whose first step is number `begin`."""
    heads, out, grad, tile = own.heads, own.work.out, own.work.out_grad, own.tile
    policy_end = heads.policy_at + rows * heads.policy_row
    value_end = heads.value_at + rows * heads.value_row
    masked = rows if about.mask.shape[0] > 0 else 0
    ppo_loss_grad(
        out[heads.policy_at : policy_end].reshape(rows, heads.policy_row),
        out[heads.value_at : value_end].reshape(rows, heads.value_row),
        tile.mask[:masked],
        heads.ends,
        tile.action[:rows],
        tile.old_log_prob[:rows],
        tile.weight[:rows],
        tile.value[:rows],
        about.advantage[begin : begin + rows],
        tile.returns[:rows],
        about.settings,
        own.space,
        grad[heads.policy_at : policy_end].reshape(rows, heads.policy_row),
        grad[heads.value_at : value_end].reshape(rows, heads.value_row),
        sums,
    )


class Trainable(NamedTuple):
    """Who learns."""

    net: Any
    optimizer: Any


@kernel
def take_step(pupil, padded, flat):
    """Apply the gradient that threads left in parts, see `collect_gradient`."""
    net, optimizer = unpack(pupil)
    control = flush_denormals()
    collect_gradient(net, padded, flat, optimizer.gradients)
    apply_gradient(optimizer)
    pack(net)
    restore_denormals(control)
