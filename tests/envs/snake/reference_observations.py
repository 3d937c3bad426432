"""Observations of a reference game in every mode, in plain Python."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from tests.envs.snake.reference import MOVES, TURNS, Cell, Game, distance, step_from

Row = list[float | np.float32]


def observe(game: Game) -> NDArray[np.float32] | NDArray[np.uint8]:
    """The observation of a game in its own mode; a flipped game is seen in the mirror."""
    if game.flipped:
        game = game.reflected()
    mode = game.rules.obs
    if mode == "grid":
        return grid(game)
    row = features(game)
    if mode in ("flood", "extended"):
        row += flood(game)
    if mode == "extended":
        row += extended(game)
    return np.array(row, np.float32)


def obs_shape(game: Game) -> tuple[int, ...]:
    """The shape of the observation of this game."""
    rules = game.rules
    if rules.obs != "grid":
        return ({"features": 11, "flood": 14, "extended": 24}[rules.obs],)
    planes = 5 + rules.grid_reachable
    if rules.grid_center == "head":
        return planes + 1, 2 * rules.height - 1, 2 * rules.width - 1
    return planes, rules.height, rules.width


def ratio(part: int, whole: int) -> np.float32:
    """A quotient of two whole numbers by one float32 division."""
    return np.float32(part) / np.float32(whole)


def features(game: Game) -> Row:
    """Danger, heading and direction of the food."""
    row: Row = [float(danger) for danger in game.dangers()]
    row += [float(game.heading == direction) for direction in range(4)]
    return row + bearing(game.body[0], game.food)


def bearing(head: Cell, target: Cell | None) -> Row:
    """Whether the target lies above, to the right, below, to the left."""
    if target is None:
        return [0.0] * 4
    sides = [target[0] < head[0], target[1] > head[1], target[0] > head[0], target[1] < head[1]]
    return [float(side) for side in sides]


def neighbors(game: Game, cell: Cell) -> list[Cell]:
    """The cells beside a cell that are on the board."""
    around = [(cell[0] + row, cell[1] + col) for row, col in MOVES]
    return [near for near in around if game.on_board(near)]


def component(game: Game, start: Cell, allowed: set[Cell]) -> set[Cell]:
    """All cells connected with `start` through allowed cells; start is one of them."""
    seen = {start}
    todo = [start]
    while todo:
        for near in neighbors(game, todo.pop()):
            if near in allowed and near not in seen:
                seen.add(near)
                todo.append(near)
    return seen


def targets(game: Game) -> list[Cell | None]:
    """The cells straight, right and left of the head; None for a fatal one."""
    cells = [step_from(game.body[0], (game.heading + turn) % 4) for turn in TURNS]
    return [None if game.collides(cell) else cell for cell in cells]


def flood(game: Game) -> Row:
    """The fraction of the free cells that stay reachable after each move."""
    row: Row = []
    free = set(game.free_cells())
    for cell in targets(game):
        if cell is None:
            row.append(0.0)
        else:
            allowed = free | {cell}
            row.append(ratio(len(component(game, cell, allowed)), len(allowed)))
    return row


def extended(game: Game) -> Row:
    """Open neighbors, the tail, and the length."""
    rules, head, tail = game.rules, game.body[0], game.body[-1]
    row: Row = [0.0 if cell is None else ratio(num_open(game, cell), 4) for cell in targets(game)]
    row += bearing(head, tail)
    row.append(float(tail_reachable(game)))
    row.append(ratio(distance(head, tail), rules.height + rules.width - 2))
    row.append(ratio(len(game.body), rules.cells))
    return row


def num_open(game: Game, cell: Cell) -> int:
    """How many neighbors of a cell are on the board and outside the body."""
    return sum(near not in game.occupied for near in neighbors(game, cell))


def tail_reachable(game: Game) -> bool:
    """Whether a path of free cells leads from the head to the tail."""
    head, tail = game.body[0], game.body[-1]
    reached = component(game, head, set(game.free_cells()))
    return any(near in reached for near in neighbors(game, tail))


def reachable_cells(game: Game) -> set[Cell]:
    """The free cells that can be reached by moves that are not fatal."""
    free = set(game.free_cells())
    regions = [component(game, cell, free | {cell}) for cell in targets(game) if cell is not None]
    return set().union(*regions) & free


def grid(game: Game) -> NDArray[np.float32] | NDArray[np.uint8]:
    """The planes of the board, in the dtype, frame and centering of the rules."""
    rules, length = game.rules, len(game.body)
    bright = rules.grid_dtype == "uint8"
    one = 255 if bright else 1
    planes = np.zeros((5 + rules.grid_reachable, rules.height, rules.width), rules.grid_dtype)
    planes[(0, *game.body[0])] = one
    for cell in game.body[1:]:
        planes[(1, *cell)] = one
    planes[(2, *game.body[-1])] = one
    if game.food is not None:
        planes[(3, *game.food)] = one
    for i, cell in enumerate(game.body):
        left = length - i
        planes[(4, *cell)] = 255 * left // length if bright else ratio(left, length)
    if rules.grid_reachable:
        for cell in reachable_cells(game):
            planes[(5, *cell)] = one
    if rules.grid_center == "head":
        planes = around_head(game, planes, one)
    if rules.grid_frame == "ego":
        planes = np.rot90(planes, game.heading, axes=(1, 2))
    return np.ascontiguousarray(planes)


def around_head(game: Game, planes: NDArray[np.generic], one: int) -> NDArray[np.generic]:
    """The planes moved so that the head is in the middle, and a last one that marks the outside."""
    height, width = game.rules.height, game.rules.width
    top, left = height - 1 - game.body[0][0], width - 1 - game.body[0][1]
    wide = np.zeros((len(planes) + 1, 2 * height - 1, 2 * width - 1), planes.dtype)
    wide[-1] = one
    wide[:-1, top : top + height, left : left + width] = planes
    wide[-1, top : top + height, left : left + width] = 0
    return wide
