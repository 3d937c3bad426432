"""One Snake game in plain Python, written from the rules of the game and slow on purpose.

Cells are (row, column) tuples, the body is a list with the head first, and nothing is cached except
the set of body cells. The compiled kernels must agree with this file, step by step.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

import numpy as np

Cell = tuple[int, int]

WORD = (1 << 64) - 1
GAMMA = 0x9E3779B97F4A7C15
UP, RIGHT, DOWN, LEFT = range(4)
MOVES = [(-1, 0), (0, 1), (1, 0), (0, -1)]
TURNS = [0, 1, -1]
"""What the relative actions straight, right and left add to the heading."""
MIRRORED_TURN = [0, 2, 1]
MIRRORED_HEADING = [UP, LEFT, DOWN, RIGHT]

WALL, BODY, TRAPPED, STARVED, STEP_LIMIT, FILLED = range(1, 7)


@dataclass(frozen=True)
class Rules:
    """The settings of a game."""

    height: int = 10
    width: int = 10
    obs: str = "features"
    actions: str = "relative"
    start: str = "center"
    start_fill: tuple[float, float] = (0.3, 0.9)
    start_mix: float = 1.0
    tail_rule: str = "vacates"
    hunger_limit: int | None = None
    max_steps: int = 0
    reward_death: float = -10.0
    reward_food: float = 10.0
    reward_win: float = 0.0
    reward_step: float = -0.01
    reward_starved: float = 0.0
    shaping: float = 0.0
    grid_dtype: str = "float32"
    grid_frame: str = "board"
    grid_center: str = "board"
    grid_reachable: bool = False
    mirror: bool = False
    masks: bool = False

    @property
    def cells(self) -> int:
        return self.height * self.width

    @property
    def hunger(self) -> int:
        return 2 * self.cells if self.hunger_limit is None else self.hunger_limit

    @property
    def num_actions(self) -> int:
        return 3 if self.actions == "relative" else 4


@dataclass(frozen=True)
class Outcome:
    """The result of one move; cause is 0 while the game goes on."""

    reward: np.float32
    terminated: bool
    truncated: bool
    cause: int


def finalize(state: int) -> int:
    """SplitMix64's finalizer."""
    z = state
    z = ((z ^ (z >> 30)) * 0xBF58476D1CE4E5B9) & WORD
    z = ((z ^ (z >> 27)) * 0x94D049BB133111EB) & WORD
    return z ^ (z >> 31)


def seeded(seed: int) -> int:
    """The random state of a game that was just given this seed."""
    return finalize((seed + GAMMA) & WORD)


def hamiltonian_cycle(height: int, width: int) -> list[Cell]:
    """The fixed cycle through all cells of a board with an even side, from (0, 0)."""
    if height % 2:
        return [(row, col) for col, row in hamiltonian_cycle(width, height)]
    cells = [(0, col) for col in range(width)]
    for row in range(1, height):
        columns = list(range(1, width))
        cells += [(row, col) for col in (columns if row % 2 == 0 else reversed(columns))]
    cells += [(row, 0) for row in range(height - 1, 0, -1)]
    return cells


def step_from(cell: Cell, direction: int) -> Cell:
    """The neighboring cell in a direction, perhaps off the board."""
    return cell[0] + MOVES[direction][0], cell[1] + MOVES[direction][1]


def direction_between(origin: Cell, target: Cell) -> int:
    """The direction from a cell to its neighbor."""
    return MOVES.index((target[0] - origin[0], target[1] - origin[1]))


def distance(a: Cell, b: Cell) -> int:
    """Manhattan distance."""
    return abs(a[0] - b[0]) + abs(a[1] - b[1])


class Game:
    """One game."""

    def __init__(self, rules: Rules, seed: int = 0) -> None:
        self.rules = rules
        self.random_state = seeded(seed)
        self.draws = 0
        self.begin()

    def draw(self, n: int) -> int:
        """A number in 0..n-1 from the game's own stream."""
        self.random_state = (self.random_state + GAMMA) & WORD
        self.draws += 1
        return ((finalize(self.random_state) >> 32) * n) >> 32

    def begin(self) -> None:
        """Start a new episode on the running random stream."""
        self.score = self.steps = self.hunger = 0
        self.total = 0.0
        if self.rules.start == "random":
            self._begin_anywhere()
        elif self.rules.start == "cycle" and self._wants_cycle():
            self._begin_on_cycle()
        else:
            self._begin_in_center()
        self.occupied = set(self.body)
        self.start_length = len(self.body)
        self.place_food()
        self.flipped = self.rules.mirror and self.draw(2) == 1

    def _begin_in_center(self) -> None:
        row, col = self.rules.height // 2, self.rules.width // 2
        self.heading = RIGHT
        self.body = [(row, col), (row, col - 1), (row, col - 2)]

    def _begin_anywhere(self) -> None:
        self.heading = self.draw(4)
        back = (self.heading + 2) % 4
        bodies = []
        for row in range(self.rules.height):
            for col in range(self.rules.width):
                neck = step_from((row, col), back)
                tail = step_from(neck, back)
                if self.on_board(neck) and self.on_board(tail):
                    bodies.append([(row, col), neck, tail])
        self.body = bodies[self.draw(len(bodies))]

    def _wants_cycle(self) -> bool:
        share = self.rules.start_mix
        if share in (0, 1):
            return share == 1
        return self.draw(1 << 32) < math.floor(share * (1 << 32))

    def _begin_on_cycle(self) -> None:
        low, high = self.rules.start_fill
        shortest = max(3, math.floor(low * self.rules.cells))
        longest = min(self.rules.cells - 1, math.floor(high * self.rules.cells))
        length = shortest + self.draw(longest - shortest + 1)
        offset = self.draw(self.rules.cells)
        cycle = hamiltonian_cycle(self.rules.height, self.rules.width)
        self.body = [cycle[(offset - i) % len(cycle)] for i in range(length)]
        self.heading = direction_between(self.body[1], self.body[0])

    def on_board(self, cell: Cell) -> bool:
        """Whether a cell is on the board."""
        return 0 <= cell[0] < self.rules.height and 0 <= cell[1] < self.rules.width

    def free_cells(self) -> list[Cell]:
        """Cells outside the body, in row-major order."""
        return [
            (row, col)
            for row in range(self.rules.height)
            for col in range(self.rules.width)
            if (row, col) not in self.occupied
        ]

    def place_food(self) -> None:
        """Put the food on a random free cell; there must be one."""
        free = self.free_cells()
        self.food: Cell | None = free[self.draw(len(free))]

    def direction_of(self, action: int) -> int:
        """The direction of an action, mirrored if the game is."""
        if self.rules.actions == "absolute":
            return self.heading if action == (self.heading + 2) % 4 else action
        turn = MIRRORED_TURN[action] if self.flipped else action
        return (self.heading + TURNS[turn]) % 4

    def collides(self, cell: Cell) -> bool:
        """Whether moving the head to this cell now is fatal."""
        if not self.on_board(cell):
            return True
        if self.rules.tail_rule == "vacates" and cell == self.body[-1]:
            return False
        return cell in self.occupied

    def dangers(self) -> list[bool]:
        """Whether straight, right and left are fatal, in board terms (not mirrored)."""
        return [self.collides(step_from(self.body[0], (self.heading + turn) % 4)) for turn in TURNS]

    def mask(self) -> list[bool]:
        """For each action, whether it does not collide at once."""
        return [
            not self.collides(step_from(self.body[0], self.direction_of(action)))
            for action in range(self.rules.num_actions)
        ]

    def step(self, action: int) -> Outcome:
        """Play one move; the game stays as it ended until `begin` is called."""
        trapped = all(self.dangers())
        self.heading = self.direction_of(action)
        cell = step_from(self.body[0], self.heading)
        self.steps += 1
        self.hunger += 1
        if self.collides(cell):
            cause = TRAPPED if trapped else BODY if self.on_board(cell) else WALL
            return self._outcome(self.rules.reward_death, terminated=True, cause=cause)
        if cell == self.food:
            return self._eat(cell)
        return self._move(cell)

    def _eat(self, cell: Cell) -> Outcome:
        self.body.insert(0, cell)
        self.occupied.add(cell)
        self.score += 1
        self.hunger = 0
        if len(self.body) == self.rules.cells:
            self.food = None
            reward = self.rules.reward_food + self.rules.reward_win
            return self._outcome(reward, terminated=True, cause=FILLED)
        self.place_food()
        if 0 < self.rules.max_steps <= self.steps:
            return self._outcome(self.rules.reward_food, truncated=True, cause=STEP_LIMIT)
        return self._outcome(self.rules.reward_food)

    def _move(self, cell: Cell) -> Outcome:
        assert self.food is not None
        before = distance(self.body[0], self.food)
        self.occupied.remove(self.body.pop())
        self.body.insert(0, cell)
        self.occupied.add(cell)
        reward = self.rules.reward_step
        reward += self.rules.shaping * (before - distance(cell, self.food))
        if 0 < self.rules.hunger <= self.hunger:
            reward += self.rules.reward_starved
            return self._outcome(reward, truncated=True, cause=STARVED)
        if 0 < self.rules.max_steps <= self.steps:
            return self._outcome(reward, truncated=True, cause=STEP_LIMIT)
        return self._outcome(reward)

    def _outcome(
        self, reward: float, *, terminated: bool = False, truncated: bool = False, cause: int = 0
    ) -> Outcome:
        rounded = np.float32(reward)
        self.total += float(rounded)
        return Outcome(rounded, terminated, truncated, cause)

    def branch(self) -> Game:
        """An independent copy, to try a move out."""
        other = Game.__new__(Game)
        other.__dict__.update(self.__dict__)
        other.body = list(self.body)
        other.occupied = set(self.occupied)
        return other

    def reflected(self) -> Game:
        """The same game seen in a mirror that swaps left and right, not flipped itself."""
        other = self.branch()
        other.body = [self._reflect(cell) for cell in self.body]
        other.occupied = set(other.body)
        other.food = None if self.food is None else self._reflect(self.food)
        other.heading = MIRRORED_HEADING[self.heading]
        other.flipped = False
        return other

    def _reflect(self, cell: Cell) -> Cell:
        return cell[0], self.rules.width - 1 - cell[1]

    def seen_as(self, **changes: object) -> Game:
        """An independent copy under other settings, such as another observation mode."""
        other = self.branch()
        other.rules = replace(self.rules, **changes)  # type: ignore[arg-type]
        return other
