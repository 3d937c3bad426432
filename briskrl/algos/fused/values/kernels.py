"""Compiled acting and learning of value networks.

Shapes: K updates of B transitions each, A actions, Z atoms of a return distribution (1: its mean
alone), N environments.
"""

from __future__ import annotations

from typing import Any, NamedTuple

from briskrl.algos.fused.value_heads.kernels import (
    best_action,
    join_heads,
    part_slopes,
    project,
    softmax,
)
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
from briskrl.intrinsics import cycles, exchange_if, look, publish
from briskrl.jit import helper, kernel, sched_yield, usleep
from briskrl.nets.kernels import within


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


class Room(NamedTuple):
    """Where one thread computes its part of a batch."""

    work: Any
    chosen: Any
    """(TILE_ROWS,) int64"""
    goals: Any
    """(TILE_ROWS, Z) what rows should learn"""


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
    """(4,) int64: K, updates done before, updates between refreshes of the target (0: none here),
    whether the online net chooses the target's action."""
    errors: Any
    """(K, B) size of each transition's error, written."""
    losses: Any
    """(P,) float64 losses of the parts of a batch, written."""
    totals: Any
    """(2,) float64 sum of losses and their number, added to."""
    padded: Any
    """(P, G) gradients of the parts, those of the rooms' works."""
    board: Any
    """Where two threads meet, see `update_values`."""


(
    ROUND,
    UPDATE,
    CLAIMED,
    DONE,
    ALONE,
    LEAVE,
    BOARD_SIZE,
) = (0, 1, 8, 16, 24, 32, 40)
"""Places on the board, those that different threads write a cache line apart."""

LOST = 500_000
"""Cycles of waiting after which a partner seems to have lost its core."""
ROUNDS_ALONE = 256
"""Updates that are then done without it."""
LOOKS_AWAKE, NAP_US = 2000, 50
"""Looks in vain before naps, and how long those are."""


@helper
def set_targets(lesson, room, k, first, rows):
    """Write what rows first..first+rows-1 of update k should learn."""
    online, target, heads, batch = lesson.online, lesson.target, lesson.heads, lesson.batch
    work, chosen, goals = room.work, room.chosen, room.goals
    double = lesson.rules[3] != 0
    atoms = heads.support.shape[0]
    out = work.out
    # Without masks this is a matrix of no rows.
    mask = batch.next_mask[min(k, batch.next_mask.shape[0] - 1)]
    take_rows(lesson.reading, batch.next_obs[k], first, rows, work)
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
def set_slopes(lesson, room, k, first, rows):
    """Write the loss's slopes at the heads and the errors; returns the loss summed over rows.

    The mean alone: the Huber loss, whose slope is the error clipped to +-1. A distribution: the
    cross entropy of softmax p against the goal t, whose slope is p - t.
    """
    heads, batch, goals = lesson.heads, lesson.batch, room.goals
    atoms = heads.support.shape[0]
    out, slope = room.work.out, room.work.slope
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
            lesson.errors[k, first + r] = size
        else:
            logits, chances = out[at : at + atoms], slope[at : at + atoms]
            normaliser = softmax(logits, chances)
            surprise = 0.0
            for z in range(atoms):
                surprise -= goals[r, z] * (logits[z] - normaliser)
                chances[z] = (chances[z] - goals[r, z]) * (weight * share)
            loss += weight * surprise
            lesson.errors[k, first + r] = surprise
    return loss * share


@helper
def learn_part(lesson, room, k, part):
    """Compute one part of update k's gradient."""
    size, parts = lesson.batch.obs.shape[1], lesson.padded.shape[0]
    begin, end = size * part // parts, size * (part + 1) // parts
    room.work.gradient[:] = 0
    loss = 0.0
    for first in range(begin, end, TILE_ROWS):
        rows = min(TILE_ROWS, end - first)
        set_targets(lesson, room, k, first, rows)
        take_rows(lesson.reading, lesson.batch.obs[k], first, rows, room.work)
        forward(lesson.online, lesson.online.layers, room.work, rows)
        join_heads(lesson.heads, room.work.out, rows)
        loss += set_slopes(lesson, room, k, first, rows)
        part_slopes(lesson.heads, room.work.slope, rows)
        backward(lesson.online, room.work, rows)
    lesson.losses[part] = loss


@helper
def learn_both_parts(lesson, room, other, k):
    """Compute update k's gradient in two parts, the second by a partner if there is one awake.

    A partner that has lost its core with a part in hand is waited for, and then left out for some
    time: on a machine that has no core to spare it would delay more than it helps.
    """
    board = lesson.board
    number = board[ROUND] + 1
    board[UPDATE] = k
    alone = board[ALONE] > 0
    if alone:
        board[ALONE] -= 1
        publish(board, CLAIMED, number)
    publish(board, ROUND, number)
    learn_part(lesson, room, k, 0)
    if alone or exchange_if(board, CLAIMED, number - 1, number):
        learn_part(lesson, other, k, 1)
        return
    begin = cycles()
    while look(board, DONE) < number:
        sched_yield()
    if cycles() - begin > LOST:
        board[ALONE] = ROUNDS_ALONE


@kernel
def update_values(lesson, room, other):
    """Do K updates of a value network, in order.

    Batches are computed in as many parts as `padded` has rows, one or two. Who computes a part
    makes no difference to the result. The board says which round (one per update, over all calls)
    is open, for which the second part has been claimed last, and for which it is done.

    Args:
        lesson: What to learn.
        room: Where to compute.
        other: Where the second part is computed.
    """
    control = flush_denormals()
    online, target = lesson.online, lesson.target
    updates, done, period, _ = lesson.rules
    for k in range(updates):
        if lesson.noise.shape[2] > 0:
            copy_numbers(online.noise, lesson.noise[k, 0])
            copy_numbers(target.noise, lesson.noise[k, 1])
            pack(online)
            pack(target)
        if lesson.padded.shape[0] == 1:
            learn_part(lesson, room, k, 0)
        else:
            learn_both_parts(lesson, room, other, k)
        collect_gradient(online, lesson.padded, lesson.optimiser.gradients)
        apply_gradient(lesson.optimiser)
        pack(online)
        for part in range(lesson.losses.shape[0]):
            lesson.totals[0] += lesson.losses[part]
        lesson.totals[1] += 1
        if period > 0 and (done + k + 1) % period == 0:
            copy_numbers(target.values, online.values)
            pack(target)
    restore_denormals(control)


@kernel
def assist(lesson, other, patience):
    """Compute second parts of batches while another thread is in `update_values`.

    Returns when the board says so, or after `patience` looks in vain. Whoever looks in vain offers
    its core to others, and naps when that does not help.

    Args:
        lesson: What is learnt there.
        other: Where to compute.
        patience: Looks in vain before returning.
    """
    control = flush_denormals()
    board = lesson.board
    looks = 0
    while looks < patience:
        number, claimed = look(board, ROUND), look(board, CLAIMED)
        if number > claimed:
            if exchange_if(board, CLAIMED, number - 1, number):
                learn_part(lesson, other, board[UPDATE], 1)
                publish(board, DONE, number)
            looks = 0
        elif look(board, LEAVE):
            break
        else:
            looks += 1
            if looks < LOOKS_AWAKE:
                sched_yield()
            else:
                usleep(NAP_US)
    restore_denormals(control)
