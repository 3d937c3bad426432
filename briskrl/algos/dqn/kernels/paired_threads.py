"""Two threads at the same updates of a value network: who lends a hand, and whether that helps.

The threads meet on a board, numbers that both see.
"""

from __future__ import annotations

from briskrl.algos.dqn.kernels.td_update import apply_parts, half_grad, use_noise
from briskrl.compiler.atomics import (
    atomic_load,
    atomic_store,
    compare_exchange,
    cycles,
    sched_yield,
    usleep,
    yield_core,
)
from briskrl.compiler.jit import helper, inline_helper, kernel
from briskrl.compiler.math import flush_denormals, restore_denormals
from briskrl.compiler.packed_args import unpack
from briskrl.fused.kernels.packing import copy_numbers

(
    ROUND,
    UPDATE,
    ALONE,
    NEXT_ALONE,
    STEPS,
    IN_STEP,
    MINE,
    OWN_DONE,
    PARTNER,
    PARTNER_DONE,
    LEAVE,
    COST_ALONE,
    COST_TOGETHER,
    APART,
    NEXT_APART,
    MAILBOX_SIZE,
) = (0, 1, 2, 3, 4, 5, 8, 16, 24, 32, 40, 48, 49, 50, 51, 56)
"""Places on the board, those that are written by one thread and watched by another a cache line
apart; see `paired_gradient`. The partner's copy is in step after IN_STEP of the network's STEPS.
The last ones are about what a partner costs, see `update_cost_model`."""

ABSENT, READY, ENGAGED = range(3)
"""What the partner is."""

LOST = 2_000_000
"""Cycles of waiting after which a partner seems to have lost its core."""
SHORTEST_ALONE, LONGEST_ALONE = 64, 8192
"""Updates that are then done without it: more if that comes again and again."""
SHORTEST_APART, LONGEST_APART = 64, 1024
"""Batches that are not shared while that would take longer than to do without a partner."""
LOOK_AROUND = 512
"""Updates between two that are done alone to see what that costs."""
LOOKS_AWAKE, NAP_US = 2000, 50
"""Looks in vain before naps, and how long those are."""


@helper
def sync_replica(context, replica):
    """Make the partner's copy of network and optimizer equal to our own."""
    ours, theirs = context.optimizer, replica.optimizer
    copy_numbers(theirs.values, ours.values)
    copy_numbers(theirs.mean, ours.mean)
    copy_numbers(theirs.variance, ours.variance)
    copy_numbers(theirs.count, ours.count)
    copy_numbers(replica.online.packed, context.online.packed)


@helper
def back_off(board):
    """Leave the partner out for a while, for longer if that comes again and again."""
    rounds = max(SHORTEST_ALONE, board[NEXT_ALONE])
    board[ALONE] = rounds
    board[NEXT_ALONE] = min(2 * rounds, LONGEST_ALONE)


@helper
def try_pair(context, replica):
    """Whether the partner takes part in the next update; if so, it is in step with us."""
    board = context.board
    if board[APART] > 0 or board[STEPS] % LOOK_AROUND == 0:
        board[APART] = max(0, board[APART] - 1)
        return False
    begin = cycles()
    while board[ALONE] == 0 and atomic_load(board, PARTNER) == ENGAGED:
        # It is still busy with the end of the last update.
        if cycles() - begin > LOST:
            back_off(board)
        sched_yield()
    if board[ALONE] > 0 or not compare_exchange(board, PARTNER, READY, ENGAGED):
        board[ALONE] = max(0, board[ALONE] - 1)
        return False
    if board[IN_STEP] != board[STEPS]:
        sync_replica(context, replica)
    board[IN_STEP] = board[STEPS] + 1
    return True


@helper
def update_cost_model(board, together, took):
    """Remember how long updates take, and leave a partner out that costs more than it saves.

    What threads exchange travels from core to core. Virtual cores may be near to each other at one
    time and far apart at another, for seconds each, and then it takes several times as long.
    """
    at = COST_TOGETHER if together else COST_ALONE
    usual = board[at]
    if usual == 0:
        # A partner has a few updates to show what it costs.
        usual = 3 * board[COST_ALONE] // 4 if together else took
    # Who loses its core in between is no measure of anything.
    board[at] = usual + (min(took, 2 * usual) - usual) // 8
    if together:
        board[NEXT_APART] = max(SHORTEST_APART, board[NEXT_APART] - 1)
        if board[COST_TOGETHER] > board[COST_ALONE]:
            board[APART] = board[NEXT_APART]
            board[NEXT_APART] = min(2 * board[NEXT_APART], LONGEST_APART)
            board[COST_TOGETHER] = 0


@inline_helper
def own_workspace(side, part):
    """Where a part is computed, unless by the partner."""
    return 1 + 2 * side + part


@inline_helper
def helper_workspace(side):
    """Where the partner computes the second part."""
    return 5 + side


@helper
def paired_gradient(context, works, k):
    """Compute half of update k's gradient while an engaged partner computes the other half.

    The partner computes with a copy of the network and of the optimizer, which stays in step
    because both threads apply the same gradients: so only gradients travel between the cores. A
    partner that has lost its core is waited for, and then left out for some time: on a machine that
    has no core to spare it would delay more than it helps.

    Returns:
        Which of two places for gradients was used: the partner may still be reading the other.
    """
    board = context.board
    number = board[ROUND] + 1
    side = number % 2
    board[ROUND], board[UPDATE] = number, k
    atomic_store(board, MINE, number)
    half_grad(context, works[own_workspace(side, 0)], k, 0)
    atomic_store(board, OWN_DONE, number)
    begin = cycles()
    while atomic_load(board, PARTNER_DONE) < number:
        sched_yield()
    if cycles() - begin > LOST:
        back_off(board)
    else:
        board[NEXT_ALONE] -= 1
    return side


@kernel
def help_until(task, signs, at, end, patience):
    """Be the partner of a thread that is in `run_updates`.

    Whoever looks in vain for something to do offers its core to others, and naps when that does not
    help.

    Args:
        task: What that thread does, held.
        signs: Numbers that other threads raise.
        at: Which of them tells when to return.
        end: When it has reached this.
        patience: Looks in vain before returning anyway.
    """
    _, replica, works, _ = unpack(task)
    control = flush_denormals()
    board = replica.board
    last = atomic_load(board, MINE)
    looks = 0
    atomic_store(board, PARTNER, READY)
    while True:
        number = atomic_load(board, MINE)
        if number > last:
            last, looks = number, 0
            k, side = board[UPDATE], number % 2
            use_noise(replica.online, replica.noise[k, 0])
            half_grad(replica, works[helper_workspace(side)], k, 1)
            atomic_store(board, PARTNER_DONE, number)
            while atomic_load(board, OWN_DONE) < number:
                sched_yield()
            apply_parts(replica, replica.parts, side)
            atomic_store(board, PARTNER, READY)
        elif looks >= patience or atomic_load(signs, at) >= end:
            # Whoever has just been engaged cannot leave.
            if compare_exchange(board, PARTNER, READY, ABSENT):
                break
        else:
            looks += 1
            if looks >= LOOKS_AWAKE or board[ALONE] > 0:
                usleep(NAP_US)
            elif yield_core():
                looks = max(looks, LOOKS_AWAKE)
    restore_denormals(control)
