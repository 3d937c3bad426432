"""Two threads at the same updates of a value network: who lends a hand, and whether that helps.

The threads meet on a board, numbers that both see.
"""

from __future__ import annotations

from briskrl.algos.dqn.kernels.td_update import apply_parts, learn_half, use_noise
from briskrl.compiler.atomics import cycles, exchange_if, look, offer_core, opened, publish
from briskrl.compiler.denormals import flush_denormals, restore_denormals
from briskrl.compiler.jit import helper, inlined, kernel, sched_yield, usleep
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
    BOARD_SIZE,
) = (0, 1, 2, 3, 4, 5, 8, 16, 24, 32, 40, 48, 49, 50, 51, 56)
"""Places on the board, those that are written by one thread and watched by another a cache line
apart; see `learn_together`. The partner's copy is in step after IN_STEP of the network's STEPS. The
last ones are about what a partner costs, see `weigh_partner`."""

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
def bring_in_step(lesson, replica):
    """Make the partner's copy of network and optimiser equal to our own."""
    ours, theirs = lesson.optimiser, replica.optimiser
    copy_numbers(theirs.values, ours.values)
    copy_numbers(theirs.mean, ours.mean)
    copy_numbers(theirs.variance, ours.variance)
    copy_numbers(theirs.count, ours.count)
    copy_numbers(replica.online.packed, lesson.online.packed)


@helper
def go_alone(board):
    """Leave the partner out for a while, for longer if that comes again and again."""
    rounds = max(SHORTEST_ALONE, board[NEXT_ALONE])
    board[ALONE] = rounds
    board[NEXT_ALONE] = min(2 * rounds, LONGEST_ALONE)


@helper
def engage(lesson, replica):
    """Whether the partner takes part in the next update; if so, it is in step with us."""
    board = lesson.board
    if board[APART] > 0 or board[STEPS] % LOOK_AROUND == 0:
        board[APART] = max(0, board[APART] - 1)
        return False
    begin = cycles()
    while board[ALONE] == 0 and look(board, PARTNER) == ENGAGED:
        # It is still busy with the end of the last update.
        if cycles() - begin > LOST:
            go_alone(board)
        sched_yield()
    if board[ALONE] > 0 or not exchange_if(board, PARTNER, READY, ENGAGED):
        board[ALONE] = max(0, board[ALONE] - 1)
        return False
    if board[IN_STEP] != board[STEPS]:
        bring_in_step(lesson, replica)
    board[IN_STEP] = board[STEPS] + 1
    return True


@helper
def weigh_partner(board, together, took):
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


@inlined
def work_of(side, part):
    """Where a part is computed, unless by the partner."""
    return 1 + 2 * side + part


@inlined
def partners_work(side):
    """Where the partner computes the second part."""
    return 5 + side


@helper
def learn_together(lesson, works, k):
    """Compute half of update k's gradient while an engaged partner computes the other half.

    The partner computes with a copy of the network and of the optimiser, which stays in step
    because both threads apply the same gradients: so only gradients travel between the cores. A
    partner that has lost its core is waited for, and then left out for some time: on a machine that
    has no core to spare it would delay more than it helps.

    Returns:
        Which of two places for gradients was used: the partner may still be reading the other.
    """
    board = lesson.board
    number = board[ROUND] + 1
    side = number % 2
    board[ROUND], board[UPDATE] = number, k
    publish(board, MINE, number)
    learn_half(lesson, works[work_of(side, 0)], k, 0)
    publish(board, OWN_DONE, number)
    begin = cycles()
    while look(board, PARTNER_DONE) < number:
        sched_yield()
    if cycles() - begin > LOST:
        go_alone(board)
    else:
        board[NEXT_ALONE] -= 1
    return side


@kernel
def assist(task, signs, at, end, patience):
    """Be the partner of a thread that is in `update_values`.

    Whoever looks in vain for something to do offers its core to others, and naps when that does not
    help.

    Args:
        task: What that thread does, held.
        signs: Numbers that other threads raise.
        at: Which of them tells when to return.
        end: When it has reached this.
        patience: Looks in vain before returning anyway.
    """
    _, replica, works, _ = opened(task)
    control = flush_denormals()
    board = replica.board
    last = look(board, MINE)
    looks = 0
    publish(board, PARTNER, READY)
    while True:
        number = look(board, MINE)
        if number > last:
            last, looks = number, 0
            k, side = board[UPDATE], number % 2
            use_noise(replica.online, replica.noise[k, 0])
            learn_half(replica, works[partners_work(side)], k, 1)
            publish(board, PARTNER_DONE, number)
            while look(board, OWN_DONE) < number:
                sched_yield()
            apply_parts(replica, replica.parts, side)
            publish(board, PARTNER, READY)
        elif looks >= patience or look(signs, at) >= end:
            # Whoever has just been engaged cannot leave.
            if exchange_if(board, PARTNER, READY, ABSENT):
                break
        else:
            looks += 1
            if looks >= LOOKS_AWAKE or board[ALONE] > 0:
                usleep(NAP_US)
            elif offer_core():
                looks = max(looks, LOOKS_AWAKE)
    restore_denormals(control)
