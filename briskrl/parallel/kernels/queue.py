"""Parts of a piece of work that several threads are at."""

from __future__ import annotations

from briskrl.compiler.atomics import fetch_add
from briskrl.compiler.jit import helper

NEXT, PARTS, BOARD_SIZE = 0, 8, 16
"""Places on a board: which part nobody has begun with, and how many there are. The first is written
by everybody, the second is read by everybody; so they are a cache line apart."""


@helper
def next_part(board):
    """A part that nobody has begun with and that is now the caller's; -1 if there is none."""
    part = fetch_add(board, NEXT, 1)
    return part if part < board[PARTS] else -1
