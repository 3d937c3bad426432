"""What an update of a value network computes: goals, slopes, its gradient, the step.

Shapes: K updates of B transitions each, A actions, Z atoms of a return distribution (1: its mean
alone).
"""

from __future__ import annotations

from typing import Any, NamedTuple

from briskrl.algos.dqn.kernels.heads import (
    best_action,
    join_heads,
    outputs_at,
    part_slopes,
    project,
    softmax,
)
from briskrl.compiler.jit import helper, inlined
from briskrl.compiler.math import within
from briskrl.fused.kernels.adam import apply_gradient, collect_gradient
from briskrl.fused.kernels.layers import backward, forward, take_rows
from briskrl.fused.kernels.packing import copy_numbers, pack
from briskrl.fused.kernels.structs import TILE_ROWS

UPDATES, DONE, PERIOD, DOUBLE, WHOLE, FORETOLD, ANNOUNCED, BEGUN, RULES = range(9)
"""Rules: K, updates done before, updates between refreshes of the target (0: none here), whether
the online net chooses the target's action, from which update on batches are split; and what holds
for the next round of updates alone: for how many of them `foretell` did its part, the number under
which they were announced, or 0, and the number under which they were begun."""


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


class Lesson(NamedTuple):
    """Everything that updates of a value network are about."""

    online: Any
    """The Net that learns."""
    target: Any
    """The Net that targets come from."""
    heads: Any
    reading: Any
    optimiser: Any
    batch: Any
    """Transitions; the first K of them are learnt from."""
    noise: Any
    """(K, 2, M) noise of online and target net; M is 0 without noisy layers."""
    rules: Any
    """(RULES,) int64"""
    ahead: Any
    """(K, B, A * Z) what the target net says of the next observations."""
    goals: Any
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
    """Where two threads meet, see `learn_together`."""


@helper
def ask_target(lesson, work, k, first, rows):
    """Write what the target net says of rows first..first+rows-1 of update k."""
    target, heads = lesson.target, lesson.heads
    take_rows(lesson.reading, lesson.batch.next_obs[k], first, rows, work)
    forward(target, target.layers, work, rows)
    join_heads(heads, work.out, rows)
    width = lesson.ahead.shape[2]
    for r in range(rows):
        at = outputs_at(heads, r)
        copy_numbers(lesson.ahead[k, first + r], work.out[at : at + width])


@helper
def set_goals(lesson, work, k, first, rows):
    """Write what rows first..first+rows-1 of update k teach."""
    online, heads, batch = lesson.online, lesson.heads, lesson.batch
    atoms = heads.support.shape[0]
    # Without masks this is a matrix of no rows.
    mask = batch.next_mask[min(k, batch.next_mask.shape[0] - 1)]
    if k >= lesson.rules[FORETOLD]:
        ask_target(lesson, work, k, first, rows)
    double = lesson.rules[DOUBLE] != 0
    if double:
        take_rows(lesson.reading, batch.next_obs[k], first, rows, work)
        forward(online, online.layers, work, rows)
        join_heads(heads, work.out, rows)
    for r in range(rows):
        said, goals = lesson.ahead[k, first + r], lesson.goals[k, first + r]
        if double:
            chosen = best_action(heads, work.out, outputs_at(heads, r), mask, first + r)
        else:
            chosen = best_action(heads, said, 0, mask, first + r)
        logits = said[chosen * atoms : (chosen + 1) * atoms]
        reward, discount = batch.reward[k, first + r], batch.discount[k, first + r]
        if atoms == 1:
            goals[0] = reward + discount * logits[0]
        else:
            softmax(logits, logits)
            project(heads, logits, reward, discount, goals)


@helper
def set_slopes(lesson, work, k, first, rows):
    """Write the loss's slopes at the heads and the errors.

    The mean alone: the Huber loss, whose slope is the error clipped to +-1. A distribution: the
    cross entropy of softmax p against the goal t, whose slope is p - t.
    """
    heads, batch = lesson.heads, lesson.batch
    atoms = heads.support.shape[0]
    out, slope = work.out, work.slope
    share = 1 / batch.obs.shape[1]
    for r in range(rows):
        row = heads.advantage_at + r * heads.advantage_row
        slope[row : row + heads.actions * atoms] = 0
        at = row + batch.action[k, first + r] * atoms
        weight, goals = batch.weight[k, first + r], lesson.goals[k, first + r]
        if atoms == 1:
            error = out[at] - goals[0]
            slope[at] = within(-1.0, error, 1.0) * (weight * share)
            lesson.errors[k, first + r] = abs(error)
        else:
            logits, chances = out[at : at + atoms], slope[at : at + atoms]
            normaliser = softmax(logits, chances)
            surprise = 0.0
            for z in range(atoms):
                surprise -= goals[z] * (logits[z] - normaliser)
                chances[z] = (chances[z] - goals[z]) * (weight * share)
            lesson.errors[k, first + r] = surprise


@helper
def loss_of(lesson, k):
    """The mean loss of update k, told from its errors."""
    errors, weight = lesson.errors[k], lesson.batch.weight[k]
    loss = 0.0
    if lesson.heads.support.shape[0] == 1:
        for r in range(errors.shape[0]):
            error = errors[r]
            loss += weight[r] * (0.5 * error * error if error < 1 else error - 0.5)
    else:
        for r in range(errors.shape[0]):
            loss += weight[r] * errors[r]
    return loss / errors.shape[0]


@helper
def learn_rows(lesson, work, k, begin, end, middle):
    """Compute what rows begin..end-1 of update k add to its gradient; see `backward`."""
    if begin == end:
        work.gradient[:] = 0
        work.flat[:] = 0
    foretold = k < lesson.rules[FORETOLD] and lesson.rules[DOUBLE] == 0
    for first in range(begin, end, TILE_ROWS):
        rows = min(TILE_ROWS, end - first)
        if not foretold:
            set_goals(lesson, work, k, first, rows)
        take_rows(lesson.reading, lesson.batch.obs[k], first, rows, work)
        forward(lesson.online, lesson.online.layers, work, rows)
        join_heads(lesson.heads, work.out, rows)
        set_slopes(lesson, work, k, first, rows)
        part_slopes(lesson.heads, work.slope, rows)
        backward(lesson.online, work, rows, first == begin, middle)


@inlined
def learn_half(lesson, work, k, half):
    """Compute one half of update k's gradient."""
    size = lesson.batch.obs.shape[1]
    learn_rows(lesson, work, k, size * half // 2, size * (half + 1) // 2, 0)


@helper
def use_noise(net, noise):
    """Mix new noise into a network's weights."""
    if noise.shape[0] > 0:
        copy_numbers(net.noise, noise)
        pack(net)


@helper
def apply_parts(lesson, parts, side):
    """Take the step that the parts of a gradient make together."""
    gradients = lesson.optimiser.gradients
    collect_gradient(lesson.online, parts.padded[side], parts.flat[side], gradients)
    apply_gradient(lesson.optimiser)
    pack(lesson.online)
