"""Outputs of a value network: dueling, distributions of returns, the best action.

Shapes: A actions, Z atoms of a return distribution (1: its mean alone). A row of a head's matrix
holds A * Z numbers, the atoms of one action side by side.
"""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numpy as np

from briskrl.compiler.jit import helper, inline_helper
from briskrl.compiler.math import within


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


@inline_helper
def outputs_at(heads, row):
    """Where a row's outputs begin, A * Z numbers."""
    return heads.advantage_at + row * heads.advantage_row


@helper
def combine_dueling(heads, out, rows):
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
def split_dueling_grad(heads, grad, rows):
    """The gradients of V and A from those of Q = V + A - mean(A), which they replace.

    dV is the sum of dQ over actions, dA = dQ - mean(dQ).
    """
    if heads.value_at < 0:
        return
    atoms = heads.support.shape[0]
    share = grad.dtype.type(1 / heads.actions)
    for r in range(rows):
        at, value_at = (
            heads.advantage_at + r * heads.advantage_row,
            heads.value_at + r * heads.value_row,
        )
        for z in range(atoms):
            total = grad.dtype.type(0)
            for a in range(heads.actions):
                total += grad[at + a * atoms + z]
            grad[value_at + z] = total
            for a in range(heads.actions):
                grad[at + a * atoms + z] -= total * share


@helper
def softmax(logits, out):
    """Write the chances that logits (Z,) stand for; returns the logarithm of their normalizer."""
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
    """The mean of the distribution that logits (Z,) stand for."""
    highest = logits[0]
    for z in range(1, logits.shape[0]):
        highest = max(highest, logits[z])
    total, weighted = 0.0, 0.0
    for z in range(logits.shape[0]):
        chance = math.exp(logits[z] - highest)
        total += chance
        weighted += chance * heads.support[z]
    return weighted / total


@inline_helper
def best_action(heads, out, row_at, mask, mask_row):
    """The legal action of highest expected return; all are legal where none is.

    Args:
        heads: What the outputs mean.
        out: Outputs of a network.
        row_at: Where those of one row begin.
        mask: (N, A), or (0, 0) if every action is legal.
        mask_row: The row's place there.
    """
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
        at = row_at + a * atoms
        if atoms == 1:
            value = np.float64(out[at])
        else:
            value = expected_return(heads, out[at : at + atoms])
        if not found or value > highest:
            best, highest, found = a, value, True
    return best


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
