"""Categories of hosts that are open or addressed, for tasks with workflows.

Behind the rows of the networks lies one word per network. Its bytes 0 to 6 are 1 if hosts of that
category are held by red, and byte 7 is the category that the last action worked on, or -1.
"""

from __future__ import annotations

import numpy as np

from briskrl.compiler.jit import helper
from briskrl.envs.cage2.kernels.layout import (
    FIRST_DECOY,
    FIRST_REMOVE,
    FIRST_RESTORE,
    T_CATEGORY,
    T_MEMBERS,
)

MOST_CATEGORIES = 7
_ADDRESSED = np.uint64(56)
_REST = np.uint64((1 << 56) - 1)


@helper
def note_addressed(t, state, word, action):
    """Note the category of the host that an action removes red from, or restores."""
    category = np.int64(-1)
    if action >= FIRST_RESTORE:
        category = np.int64(t[T_CATEGORY + action - FIRST_RESTORE])
    elif FIRST_REMOVE <= action < FIRST_DECOY:
        category = np.int64(t[T_CATEGORY + action - FIRST_REMOVE])
    state[word] = (state[word] & _REST) | (np.uint64(category) << _ADDRESSED)


@helper
def note_open(t, state, word, held):
    """Note the categories with a host among those that red holds."""
    bits = np.uint64(0)
    for category in range(MOST_CATEGORIES):
        if held & np.int64(t[T_MEMBERS + category]):
            bits |= np.uint64(1) << np.uint64(8 * category)
    state[word] = (state[word] & ~_REST) | bits
