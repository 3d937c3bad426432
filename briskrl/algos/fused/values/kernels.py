"""Compiled updates: what the algorithms add to the dense layers of `briskrl.fused`.

Shapes: K updates of B transitions each, A actions, Z atoms of a return distribution (1: its mean
alone), N environments. A row of a head's matrix holds A * Z numbers, the atoms of one action side
by side.
"""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numpy as np

from briskrl.algos.kernels import mix_random_actions
from briskrl.fused.intrinsics import flush_denormals, restore_denormals
from briskrl.fused.kernels import (
    TILE_ROWS,
    apply_gradient,
    backward,
    collect_gradient,
    copy_numbers,
    forward,
    pack,
    take_rows,
)
from briskrl.jit import helper, kernel
from briskrl.nets.kernels import within


class Heads(NamedTuple):
    """Where a value network's outputs are in a Work, and what they mean."""

    advantage_at: int
    advantage_row: int
    value_at: int
    """-1 without a value of its own."""
    value_row: int
    actions: int
    support: Any
    """(Z,) returns that a distribution is over; (1,) if the mean alone is learnt."""


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
    """(K, B, A), or (0, 0, 0) if every action is legal."""


@helper
def join_heads(heads, out, rows):
    """Dueling (Wang 2016, equation 9), in place of the advantages: V + A - mean(A)."""
    if heads.value_at < 0:
        return
    atoms = heads.support.shape[0]
    share = out.dtype.type(1 / heads.actions)
    for r in range(rows):
        at, value_at = (
            heads.advantage_at + r * heads.advantage_row,
            heads.value_at + r * heads.value_row,
        )
        for z in range(atoms):
            mean = out.dtype.type(0)
            for a in range(heads.actions):
                mean += out[at + a * atoms + z]
            shift = out[value_at + z] - mean * share
            for a in range(heads.actions):
                out[at + a * atoms + z] += shift


@helper
def part_slopes(heads, slope, rows):
    """The slopes of V and A from those of Q = V + A - mean(A), which they replace.

    dV is the sum of dQ over actions, dA = dQ - mean(dQ).
    """
    if heads.value_at < 0:
        return
    atoms = heads.support.shape[0]
    share = slope.dtype.type(1 / heads.actions)
    for r in range(rows):
        at, value_at = (
            heads.advantage_at + r * heads.advantage_row,
            heads.value_at + r * heads.value_row,
        )
        for z in range(atoms):
            total = slope.dtype.type(0)
            for a in range(heads.actions):
                total += slope[at + a * atoms + z]
            slope[value_at + z] = total
            for a in range(heads.actions):
                slope[at + a * atoms + z] -= total * share


@helper
def softmax(logits, out):
    """Write the chances that logits (Z,) stand for; returns the logarithm of their normaliser."""
    highest = logits[0]
    for z in range(1, logits.shape[0]):
        highest = max(highest, logits[z])
    total = 0.0
    for z in range(logits.shape[0]):
        out[z] = math.exp(logits[z] - highest)
        total += out[z]
    share = out.dtype.type(1 / total)
    for z in range(logits.shape[0]):
        out[z] *= share
    return highest + math.log(total)


@helper
def expected_return(heads, logits):
    """The mean of the distribution that logits (Z,) stand for; the number itself if Z is 1."""
    if logits.shape[0] == 1:
        return np.float64(logits[0])
    highest = logits[0]
    for z in range(1, logits.shape[0]):
        highest = max(highest, logits[z])
    total, weighted = 0.0, 0.0
    for z in range(logits.shape[0]):
        chance = math.exp(logits[z] - highest)
        total += chance
        weighted += chance * heads.support[z]
    return weighted / total


@helper
def best_action(heads, out, row, mask, mask_row):
    """The legal action of highest expected return; all are legal where none is."""
    atoms = heads.support.shape[0]
    masked = False
    if mask.shape[0] > 0:
        for a in range(heads.actions):
            masked |= mask[mask_row, a]
    best, highest = 0, -math.inf
    found = False
    for a in range(heads.actions):
        if masked and not mask[mask_row, a]:
            continue
        at = heads.advantage_at + row * heads.advantage_row + a * atoms
        value = expected_return(heads, out[at : at + atoms])
        if not found or value > highest:
            best, highest, found = a, value, True
    return best


@kernel
def act_greedily(net, heads, reading, work, obs, mask, draws, epsilon, greedy, out):
    """Write actions (N,): greedy ones for observations (N, F), random ones for a share epsilon."""
    control = flush_denormals()
    for first in range(0, obs.shape[0], TILE_ROWS):
        rows = min(TILE_ROWS, obs.shape[0] - first)
        take_rows(reading, obs, first, rows, work)
        forward(net, net.layers, work, rows)
        join_heads(heads, work.out, rows)
        for r in range(rows):
            greedy[first + r] = best_action(heads, work.out, r, mask, first + r)
    mix_random_actions(greedy, draws, epsilon, heads.actions, mask, out)
    restore_denormals(control)


@helper
def project(heads, chances, reward, discount, out):
    """Put the distribution of reward + discount * z back onto the support (Bellemare 2017, eq. 7).

    Args:
        heads: Hold the support.
        chances: (Z,) of the next state's return.
        reward: A number.
        discount: A number.
        out: (Z,), written.
    """
    support = heads.support
    atoms = support.shape[0]
    low, high = support[0], support[atoms - 1]
    scale = (atoms - 1) / (high - low)
    out[:] = 0
    for z in range(atoms):
        moved = within(low, reward + discount * support[z], high)
        position = (moved - low) * scale
        # Also whole and within bounds where the position is NaN.
        below = int(min(atoms - 1.0, max(0.0, position)))
        above = min(below + 1, atoms - 1)
        share = position - below
        out[below] += chances[z] * (1 - share)
        out[above] += chances[z] * share


@helper
def set_targets(online, target, heads, reading, work, batch, k, first, rows, double, chosen, goals):
    """Write what rows first..first+rows-1 of update k should learn into `goals` (TILE_ROWS, Z)."""
    atoms = heads.support.shape[0]
    out = work.out
    mask = (
        batch.next_mask[k] if batch.next_mask.shape[0] > 0 else batch.next_mask[0:0].reshape(0, 0)
    )
    take_rows(reading, batch.next_obs[k], first, rows, work)
    if double:
        forward(online, online.layers, work, rows)
        join_heads(heads, out, rows)
        for r in range(rows):
            chosen[r] = best_action(heads, out, r, mask, first + r)
    forward(target, target.layers, work, rows)
    join_heads(heads, out, rows)
    for r in range(rows):
        if not double:
            chosen[r] = best_action(heads, out, r, mask, first + r)
        at = heads.advantage_at + r * heads.advantage_row + chosen[r] * atoms
        reward, discount = batch.reward[k, first + r], batch.discount[k, first + r]
        if atoms == 1:
            goals[r, 0] = reward + discount * out[at]
        else:
            logits = out[at : at + atoms]
            softmax(logits, logits)
            project(heads, logits, reward, discount, goals[r])


@helper
def set_slopes(heads, work, batch, k, first, rows, goals, errors):
    """Write the loss's slopes at the heads and the errors; returns the loss summed over rows.

    The mean alone: the Huber loss, whose slope is the error clipped to +-1. A distribution: the
    cross entropy of softmax p against the goal t, whose slope is p - t.
    """
    atoms = heads.support.shape[0]
    out, slope = work.out, work.slope
    share = 1 / batch.obs.shape[1]
    loss = 0.0
    for r in range(rows):
        row = heads.advantage_at + r * heads.advantage_row
        slope[row : row + heads.actions * atoms] = 0
        at = row + batch.action[k, first + r] * atoms
        weight = batch.weight[k, first + r]
        if atoms == 1:
            error = out[at] - goals[r, 0]
            size = abs(error)
            loss += weight * (0.5 * error * error if size < 1 else size - 0.5)
            slope[at] = within(-1.0, error, 1.0) * (weight * share)
            errors[k, first + r] = size
        else:
            logits, chances = out[at : at + atoms], slope[at : at + atoms]
            normaliser = softmax(logits, chances)
            surprise = 0.0
            for z in range(atoms):
                surprise -= goals[r, z] * (logits[z] - normaliser)
                chances[z] = (chances[z] - goals[r, z]) * (weight * share)
            loss += weight * surprise
            errors[k, first + r] = surprise
    return loss * share


@kernel
def update_values(
    online,
    target,
    heads,
    reading,
    work,
    padded,
    optimiser,
    batch,
    noise,
    rules,
    chosen,
    goals,
    errors,
    losses,
):
    """Do K updates of a value network, in order.

    Args:
        online: The Net that learns.
        target: The Net that targets come from.
        heads: Both nets' Heads.
        reading: How observations are read.
        work: Where to compute.
        padded: (1, G) the work's gradient.
        optimiser: The online net's.
        batch: Transitions; the first K of them are learnt from.
        noise: (K, 2, M) noise of online and target net; M is 0 without noisy layers.
        rules: (4,) int64: K, updates done before, updates between refreshes of the target (0: none
            here), whether the online net chooses the target's action.
        chosen: (TILE_ROWS,) int64 scratch.
        goals: (TILE_ROWS, Z) scratch.
        errors: (K, B) size of each transition's error, written.
        losses: (2,) float64 sum of losses and their number, added to.
    """
    control = flush_denormals()
    updates, done, period, double = rules
    size = batch.obs.shape[1]
    for k in range(updates):
        if noise.shape[2] > 0:
            copy_numbers(online.noise, noise[k, 0])
            copy_numbers(target.noise, noise[k, 1])
            pack(online)
            pack(target)
        padded[:] = 0
        loss = 0.0
        for first in range(0, size, TILE_ROWS):
            rows = min(TILE_ROWS, size - first)
            set_targets(
                online, target, heads, reading, work, batch, k, first, rows, double, chosen, goals
            )
            take_rows(reading, batch.obs[k], first, rows, work)
            forward(online, online.layers, work, rows)
            join_heads(heads, work.out, rows)
            loss += set_slopes(heads, work, batch, k, first, rows, goals, errors)
            part_slopes(heads, work.slope, rows)
            backward(online, work, rows)
        collect_gradient(online, padded, optimiser.gradients)
        apply_gradient(optimiser)
        pack(online)
        losses[0] += loss
        losses[1] += 1
        if period > 0 and (done + k + 1) % period == 0:
            copy_numbers(target.values, online.values)
            pack(target)
    restore_denormals(control)
