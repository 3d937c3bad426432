"""Waiting for a number in a mailbox that another thread is about to raise, and backing off.

A waiting thread yields its core at every look, so that on a machine without a core to spare it
takes no time from threads that work. Once another thread has taken the core, it sleeps.
"""

from __future__ import annotations

from briskrl.compiler.atomics import atomic_load, atomic_store, usleep, yield_core
from briskrl.compiler.jit import helper, inline_helper, kernel

PATIENCE, NAP_US = 8000, 50
"""Looks before naps, and how long those are."""


@inline_helper
def spin(looks, patience):
    """Yield the core after a look that found nothing.

    Returns:
        The number of looks so far; `patience` at once if another thread took the core.
    """
    return patience if yield_core() else looks + 1


@inline_helper
def spin_or_nap(looks, patience):
    """The same, but sleep for a moment when patience is exhausted."""
    if looks < patience:
        return spin(looks, patience)
    usleep(NAP_US)
    return looks


@helper
def wait_until(mailbox, index, number, patience):
    """Return when mailbox[index] has reached a number; naps after `patience` looks."""
    looks = 0
    while atomic_load(mailbox, index) < number:
        looks = spin_or_nap(looks, patience)


@kernel
def wait_for(mailbox, index, number):
    """`wait_until` for callers that are not compiled."""
    wait_until(mailbox, index, number, PATIENCE)


@kernel
def report(mailbox, index, number, next_index, patience):
    """Raise mailbox[index] to a number, then wait for the next task.

    Both in one call: a thread that reported by itself and then released the interpreter would have
    put the thread that waits for the report to sleep in between.

    Returns:
        Whether mailbox[next_index] exceeds the number within `patience` looks, and before another
        thread takes the core.
    """
    atomic_store(mailbox, index, number)
    looks = 0
    while atomic_load(mailbox, next_index) <= number:
        if looks >= patience:
            return False
        looks = spin(looks, patience)
    return True


@kernel
def hand_over(mailbox, index, number, answer_index, patience):
    """Raise mailbox[index] to a number; give mailbox[answer_index] some looks to follow."""
    atomic_store(mailbox, index, number)
    looks = 0
    while atomic_load(mailbox, answer_index) < number and looks < patience:
        looks = spin(looks, patience)


@helper
def back_off(mailbox, index, shortest, longest):
    """Do without another thread for a number of rounds that doubles each time.

    mailbox[index] counts the rounds that are left, mailbox[index + 1] is the next number of them.
    """
    rounds = max(shortest, mailbox[index + 1])
    mailbox[index] = rounds
    mailbox[index + 1] = min(2 * rounds, longest)
