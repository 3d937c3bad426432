"""Checks a loaded state of Snake games, whose numbers kernels use as indices."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from briskrl.core.errors import InvalidStateError
from briskrl.core.state_checks import check_finite, check_range
from briskrl.core.types import Bools, Ints
from briskrl.envs.snake.kernels import board as k
from briskrl.envs.snake.layout import Layout

_INT32 = np.iinfo(np.int32).max
_SHORTS = {
    "heading": (k.HEADING, 3),
    "mirror": (k.MIRROR, 1),
    "final moves": (k.FINAL_OPEN, k.MOVES),
    "final heading": (k.FINAL_HEADING, 3),
    "final mirror": (k.FINAL_MIRROR, 1),
}
"""Places of numbers in a row seen as int16, and the largest value of each."""


def check_games(rows: NDArray[np.uint64], layout: Layout) -> None:
    """Check the memory of games (N, row_words).

    What follows from body, heading and food is not checked, because it is computed again.

    Raises:
        InvalidStateError: No game can have written it.
    """
    shorts, ints = rows.view(np.int16), rows.view(np.int32)
    for name, (at, high) in _SHORTS.items():
        check_range(f"snake: {name}", shorts[:, at], 0, high)
    for name, at in {"steps": k.STEPS, "hunger": k.HUNGER, "score": k.SCORE}.items():
        check_range(f"snake: {name}", ints[:, at], 0, _INT32 - 1)
    cells = layout.height * layout.width
    check_range("snake: length", ints[:, k.LENGTH], 1, cells)
    check_range("snake: start length", shorts[:, k.START_LENGTH], -cells, cells)
    check_range("snake: ring head", shorts[:, k.RING_HEAD], 0, layout.ring_mask)
    check_finite("snake: return", rows.view(np.float64)[:, k.RETURN])
    _check_padding(rows, layout)
    taken = _check_bodies(shorts, ints[:, k.LENGTH].astype(np.int64), layout)
    _check_food(shorts[:, k.FOOD].astype(np.int64), taken, layout)


def _check_padding(rows: NDArray[np.uint64], layout: Layout) -> None:
    """Check the words around the board: a bit there would be a free cell beyond the wall."""
    first, board = k.ROW_SCALARS, layout.board // 64
    check_range("snake: padding", rows[:, first:board], 0, 0)
    check_range(
        "snake: padding", rows[:, board + layout.board_words : first + layout.padded_words], 0, 0
    )


def _check_bodies(shorts: NDArray[np.int16], length: Ints, layout: Layout) -> Bools:
    """Check that bodies consist of different cells of the board; returns those cells (N, cells)."""
    cells, number = layout.height * layout.width, len(shorts)
    places = (shorts[:, k.RING_HEAD, None].astype(np.int64) - np.arange(cells)) & layout.ring_mask
    body = np.take_along_axis(shorts, layout.ring + places, axis=1).astype(np.int64)
    used = np.arange(cells) < length[:, None]
    good = _on_board(body, layout)
    if not good[used].all():
        raise InvalidStateError(f"snake: body holds {body[used & ~good][0]}, which is not a cell")
    env = np.broadcast_to(np.arange(number)[:, None], body.shape)[used]
    counts = np.bincount(env * cells + layout.to_cell(body[used]), minlength=number * cells)
    check_range("snake: snakes on a cell", counts.reshape(number, cells), 0, 1)
    taken: Bools = counts.reshape(number, cells) > 0
    return taken


def _check_food(food: Ints, taken: Bools, layout: Layout) -> None:
    """Check that food, unless there is none (-1), lies on a free cell of the board."""
    there = food >= 0
    good = _on_board(food, layout) | (food == -1)
    if not good.all():
        raise InvalidStateError(f"snake: food holds {food[~good][0]}, which is not a cell")
    if taken[there, layout.to_cell(food[there])].any():
        raise InvalidStateError("snake: food lies on a snake")


def _on_board(bits: Ints, layout: Layout) -> Bools:
    row, col = np.divmod(bits - layout.board, layout.stride)
    good: Bools = (row >= 0) & (row < layout.height) & (col < layout.width)
    return good
