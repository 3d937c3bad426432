"""Outputs of a Q-network: dueling heads, return distributions, the greedy action.

Shapes: A actions, Z atoms of a return distribution (1: the network puts out the mean itself). A row
of a head's matrix holds A * Z numbers, the atoms of one action next to each other.
"""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numpy as np

from briskrl.compiler.jit import fastmath_helper, helper, inline_helper
from briskrl.compiler.math import within


class QHeads(NamedTuple):
    """Where a Workspace holds the outputs of a Q-network, and what they mean."""

    advantage_at: int
    """Offset of the first row's outputs: Q-values, or advantages of a dueling network."""
    advantage_row: int
    """Distance between rows."""
    value_at: int
    """Offset of the state values of a dueling network; -1 for other networks."""
    value_row: int
    actions: int
    support: Any
    """(Z,) returns of the distribution's atoms; (1,) without a distribution, zeros if quantiles are
    learned."""
    quantiles: int
    """Whether the atoms are quantiles of the distribution instead of logits; 0 or 1."""


@inline_helper
def outputs_at(heads, row):
    """Where the A * Z outputs of a row begin."""
    return heads.advantage_at + row * heads.advantage_row


@helper
def combine_dueling(heads, out, rows):
    """Replace advantages by Q = V + A - mean(A) (Wang 2016, equation 9); no-op without dueling."""
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
    """Replace the gradients of Q = V + A - mean(A) by those of V and A.

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
def atom_softmax(logits, probs):
    """Write the softmax of one action's logits (Z,) into `probs`; returns log(sum(exp(logits)))."""
    highest = logits[0]
    for z in range(1, logits.shape[0]):
        highest = max(highest, logits[z])
    total = 0.0
    for z in range(logits.shape[0]):
        probs[z] = math.exp(logits[z] - highest)
        total += probs[z]
    share = probs.dtype.type(1 / total)
    for z in range(logits.shape[0]):
        probs[z] *= share
    return highest + math.log(total)


@helper
def expected_return(heads, logits):
    """The mean of the return distribution that logits or quantiles (Z,) describe."""
    if heads.quantiles != 0:
        sum_of = 0.0
        for z in range(logits.shape[0]):
            sum_of += logits[z]
        return sum_of / logits.shape[0]
    highest = logits[0]
    for z in range(1, logits.shape[0]):
        highest = max(highest, logits[z])
    total, weighted = 0.0, 0.0
    for z in range(logits.shape[0]):
        unnormalized = math.exp(logits[z] - highest)
        total += unnormalized
        weighted += unnormalized * heads.support[z]
    return weighted / total


@inline_helper
def best_action(heads, out, row_at, mask, mask_row):
    """The legal action of highest expected return; every action is legal if none is marked legal.

    Args:
        heads: QHeads.
        out: Outputs of a network.
        row_at: Where the outputs of the row begin.
        mask: (N, A), or (0, 0) if every action is legal.
        mask_row: The row of the mask.
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


@fastmath_helper
def quantile_term(error, probability):
    """The quantile Huber loss of one error, and its derivative."""
    size = abs(error)
    share = abs(probability - (1.0 if error < 0 else 0.0))
    loss = 0.5 * error * error if size < 1 else size - 0.5
    return share * loss, share * within(-1.0, error, 1.0)


@fastmath_helper
def quantile_loss_grad(quantiles, targets, factor, grad):
    """Write the gradient of the quantile Huber loss, times `factor`; returns the loss.

    The torch counterpart is `briskrl.algos.losses.quantile_huber` (Dabney 2018, equation 10): the
    sum over quantiles of the mean over targets.

    Args:
        quantiles: (Z,) of the probabilities (i + 0.5) / Z.
        targets: (Z,) samples of the target distribution.
        factor: A number.
        grad: (Z,), written.
    """
    count = quantiles.shape[0]
    total = 0.0
    for i in range(count):
        probability = (i + 0.5) / count
        loss, derivative = 0.0, 0.0
        for j in range(count):
            error = float(targets[j] - quantiles[i])
            size, slope = quantile_term(error, probability)
            loss += size
            derivative += slope
        total += loss / count
        grad[i] = -derivative / count * factor
    return total


@helper
def project(heads, probs, reward, discount, out):
    """Project the distribution of reward + discount * z onto the support (Bellemare 2017, eq. 7).

    The torch counterpart is `briskrl.algos.losses.project_distribution`.

    Args:
        heads: QHeads with the support.
        probs: (Z,) distribution of the next state's return.
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
        # An index within bounds even where the position is NaN.
        below = int(min(atoms - 1.0, max(0.0, position)))
        above = min(below + 1, atoms - 1)
        share = position - below
        out[below] += probs[z] * (1 - share)
        out[above] += probs[z] * share
