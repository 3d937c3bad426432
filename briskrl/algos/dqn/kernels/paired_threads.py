"""Split a Q-network update across two threads.

The main thread runs the updates; a helper thread in `help_until` computes half of a batch's
gradient when it is ready. The threads communicate through the mailbox, an int64 array.
"""

from __future__ import annotations

from briskrl.algos.dqn.kernels.td_update import apply_parts, half_grad, use_noise
from briskrl.compiler.atomics import (
    atomic_load,
    atomic_store,
    compare_exchange,
    cycles,
    sched_yield,
)
from briskrl.compiler.jit import helper, inline_helper, kernel
from briskrl.compiler.math import flush_denormals, restore_denormals
from briskrl.compiler.packed_args import unpack
from briskrl.fused.kernels.packing import copy_numbers
from briskrl.parallel.kernels.spin_wait import back_off, spin_or_nap

(
    ROUND,
    UPDATE,
    BACKOFF,
    NEXT_BACKOFF,
    STEPS,
    REPLICA_STEPS,
    MAIN_STARTED,
    MAIN_DONE,
    HELPER,
    HELPER_DONE,
    LEAVE,
    MAILBOX_SIZE,
) = (0, 1, 2, 3, 4, 5, 8, 16, 24, 32, 40, 48)
"""Elements of the mailbox; those that one thread writes and the other polls are a cache line apart.

ROUND counts paired updates; MAIN_STARTED, MAIN_DONE and HELPER_DONE are the last rounds that the
threads have reached. UPDATE is the index of the update in the batch. BACKOFF is the number of
updates to do alone after the helper was late; NEXT_BACKOFF follows it, as `back_off` requires.
STEPS counts optimizer steps; after REPLICA_STEPS of them the helper's replica is up to date. HELPER
is the helper's state; LEAVE asks it to return."""

ABSENT, READY, BUSY = range(3)
"""States of the helper."""

LOST_CYCLES = 2_000_000
"""Cycles of waiting after which the helper seems to have lost its core."""
MIN_BACKOFF, MAX_BACKOFF = 64, 8192
"""Updates that are then done without it; doubled every time it happens again."""
SPIN_LIMIT = 2000
"""Polls without work before the helper sleeps between polls."""


@helper
def sync_replica(context, replica):
    """Copy network and optimizer into the helper's replica."""
    ours, theirs = context.optimizer, replica.optimizer
    copy_numbers(theirs.values, ours.values)
    copy_numbers(theirs.mean, ours.mean)
    copy_numbers(theirs.variance, ours.variance)
    copy_numbers(theirs.count, ours.count)
    copy_numbers(replica.online.packed, context.online.packed)


@helper
def try_pair(context, replica):
    """Whether the helper takes part in the next update; if so, its replica is up to date."""
    mailbox = context.mailbox
    begin = cycles()
    while mailbox[BACKOFF] == 0 and atomic_load(mailbox, HELPER) == BUSY:
        # It is still applying the last gradient.
        if cycles() - begin > LOST_CYCLES:
            back_off(mailbox, BACKOFF, MIN_BACKOFF, MAX_BACKOFF)
        sched_yield()
    if mailbox[BACKOFF] > 0 or not compare_exchange(mailbox, HELPER, READY, BUSY):
        mailbox[BACKOFF] = max(0, mailbox[BACKOFF] - 1)
        return False
    if mailbox[REPLICA_STEPS] != mailbox[STEPS]:
        sync_replica(context, replica)
    mailbox[REPLICA_STEPS] = mailbox[STEPS] + 1
    return True


@inline_helper
def main_workspace(side, half):
    """Index of the workspace in which the main thread computes a half."""
    return 1 + 2 * side + half


@inline_helper
def helper_workspace(side):
    """Index of the workspace in which the helper computes the second half."""
    return 5 + side


@helper
def paired_gradient(context, workspaces, k):
    """Compute the first half of update k's gradient while the helper computes the second.

    The helper uses a replica of network and optimizer. Both threads apply the same gradients, so
    the replica stays up to date and only gradients travel between the cores. A helper that has lost
    its core is waited for once and then left out for some time: on a machine without a spare core
    it would delay more than it helps.

    Returns:
        Which of two sets of gradient buffers was used; the helper may still read the other one.
    """
    mailbox = context.mailbox
    number = mailbox[ROUND] + 1
    side = number % 2
    mailbox[ROUND], mailbox[UPDATE] = number, k
    atomic_store(mailbox, MAIN_STARTED, number)
    half_grad(context, workspaces[main_workspace(side, 0)], k, 0)
    atomic_store(mailbox, MAIN_DONE, number)
    begin = cycles()
    while atomic_load(mailbox, HELPER_DONE) < number:
        sched_yield()
    if cycles() - begin > LOST_CYCLES:
        back_off(mailbox, BACKOFF, MIN_BACKOFF, MAX_BACKOFF)
    else:
        mailbox[NEXT_BACKOFF] -= 1
    return side


@kernel
def help_until(task, signs, at, end, patience):
    """Help a thread that is in `run_updates`, until it is done.

    While there is nothing to do the helper yields its core, and sleeps if that is not enough.

    Args:
        task: Packed Task of the other thread.
        signs: Counters that other threads raise.
        at: Index of the counter to watch.
        end: Value of the counter at which to return.
        patience: Polls without work after which to return anyway.
    """
    _, replica, workspaces, _ = unpack(task)
    control = flush_denormals()
    mailbox = replica.mailbox
    last = atomic_load(mailbox, MAIN_STARTED)
    polls = 0
    atomic_store(mailbox, HELPER, READY)
    while True:
        number = atomic_load(mailbox, MAIN_STARTED)
        if number > last:
            last, polls = number, 0
            k, side = mailbox[UPDATE], number % 2
            use_noise(replica.online, replica.noise[k, 0])
            half_grad(replica, workspaces[helper_workspace(side)], k, 1)
            atomic_store(mailbox, HELPER_DONE, number)
            while atomic_load(mailbox, MAIN_DONE) < number:
                sched_yield()
            apply_parts(replica, replica.half_gradients, side)
            atomic_store(mailbox, HELPER, READY)
        elif polls >= patience or atomic_load(signs, at) >= end:
            # Fails if the main thread has just claimed this helper.
            if compare_exchange(mailbox, HELPER, READY, ABSENT):
                break
        else:
            limit = 0 if mailbox[BACKOFF] > 0 else SPIN_LIMIT
            polls = max(polls + 1, spin_or_nap(polls, limit))
    restore_denormals(control)
