"""Compiled pieces of policy learning: acting, values, the gradient of a minibatch.

Shapes: B steps of a minibatch, N environments, D choices at once, S logits of all of them together.
"""

from __future__ import annotations

from typing import Any, NamedTuple

from briskrl.algos.choices.kernels import policy_slopes, recall_choices, sample_choices
from briskrl.fused.intrinsics import flush_denormals, restore_denormals
from briskrl.fused.kernels import (
    TILE_ROWS,
    apply_gradient,
    backward,
    collect_gradient,
    forward,
    pack,
    take_rows,
)
from briskrl.intrinsics import opened
from briskrl.jit import kernel


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


class Steps(NamedTuple):
    """A Minibatch as kernels see it."""

    obs: Any
    """(B, F)"""
    mask: Any
    """(B, S), or (0, 0) if every action is legal."""
    action: Any
    """(B, D)"""
    anchor: Any
    """(B,), as are the others."""
    weight: Any
    value: Any
    advantage: Any
    ret: Any


class Member(NamedTuple):
    """What one thread computes with; kernels are given it held."""

    net: Any
    heads: Any
    reading: Any
    work: Any
    space: Any
    """Where `algos.choices` computes."""


@kernel
def act_by_chance(member, obs, mask, draws, first, end, action, log_prob):
    """Draw actions (N, D) and their log probabilities (N,) for observations first..end-1."""
    net, heads, reading, work, space = opened(member)
    control = flush_denormals()
    for begin in range(first, end, TILE_ROWS):
        rows = min(TILE_ROWS, end - begin)
        stop = begin + rows
        take_rows(reading, obs, begin, rows, work)
        forward(net, heads.policy_layers, work, rows)
        wide = heads.policy_row
        logits = work.out[heads.policy_at : heads.policy_at + rows * wide].reshape(rows, wide)
        sample_choices(
            logits,
            mask[begin:stop],
            heads.ends,
            draws[begin:stop],
            action[begin:stop],
            log_prob[begin:stop],
            space,
        )
    restore_denormals(control)


@kernel
def foresee(member, obs, first, end, values):
    """Write the values (M,) of observations first..end-1 of (M, F)."""
    net, heads, reading, work, _ = opened(member)
    control = flush_denormals()
    for begin in range(first, end, TILE_ROWS):
        rows = min(TILE_ROWS, end - begin)
        take_rows(reading, obs, begin, rows, work)
        forward(net, heads.value_layers, work, rows)
        for r in range(rows):
            values[begin + r] = work.out[heads.value_at + r * heads.value_row]
    restore_denormals(control)


@kernel
def recall(member, obs, mask, action, first, end, log_prob):
    """Write the log probabilities (M,) of actions (M, D) that were taken before."""
    net, heads, reading, work, space = opened(member)
    control = flush_denormals()
    for begin in range(first, end, TILE_ROWS):
        rows = min(TILE_ROWS, end - begin)
        stop = begin + rows
        take_rows(reading, obs, begin, rows, work)
        forward(net, heads.policy_layers, work, rows)
        wide = heads.policy_row
        logits = work.out[heads.policy_at : heads.policy_at + rows * wide].reshape(rows, wide)
        legal, taken = mask[begin:stop], action[begin:stop]
        recall_choices(logits, legal, heads.ends, taken, log_prob[begin:stop], space)
    restore_denormals(control)


@kernel
def add_gradient(member, steps, settings, first, end, sums):
    """Write the gradient of steps first..end-1 into `work`, and add the loss's parts to `sums`.

    Settings and sums are those of `policy_slopes`.
    """
    net, heads, reading, work, space = opened(member)
    control = flush_denormals()
    if first == end:
        work.gradient[:] = 0
        work.flat[:] = 0
    for begin in range(first, end, TILE_ROWS):
        rows = min(TILE_ROWS, end - begin)
        stop = begin + rows
        take_rows(reading, steps.obs, begin, rows, work)
        forward(net, net.layers, work, rows)
        policy_end = heads.policy_at + rows * heads.policy_row
        value_end = heads.value_at + rows * heads.value_row
        policy_slopes(
            work.out[heads.policy_at : policy_end].reshape(rows, heads.policy_row),
            work.out[heads.value_at : value_end].reshape(rows, heads.value_row),
            steps.mask[begin:stop],
            heads.ends,
            steps.action[begin:stop],
            steps.anchor[begin:stop],
            steps.weight[begin:stop],
            steps.value[begin:stop],
            steps.advantage[begin:stop],
            steps.ret[begin:stop],
            settings,
            space,
            work.slope[heads.policy_at : policy_end].reshape(rows, heads.policy_row),
            work.slope[heads.value_at : value_end].reshape(rows, heads.value_row),
            sums,
        )
        backward(net, work, rows, begin == first)
    restore_denormals(control)


class Pupil(NamedTuple):
    """Who learns."""

    net: Any
    optimiser: Any


@kernel
def take_step(pupil, padded, flat):
    """Apply the gradient that threads left in parts, see `collect_gradient`."""
    net, optimiser = opened(pupil)
    control = flush_denormals()
    collect_gradient(net, padded, flat, optimiser.gradients)
    apply_gradient(optimiser)
    pack(net)
    restore_denormals(control)
