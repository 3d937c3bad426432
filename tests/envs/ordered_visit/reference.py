"""Ordered visit in plain Python, on a map that is given."""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass, field

MOVES = ((0, -1), (1, 0), (0, 1), (-1, 0))
Cell = tuple[int, int]


@dataclass
class Game:
    """One episode; cells are (x, y)."""

    side: int
    size: int
    regions: int
    max_steps: int
    hidden: tuple[int, ...]
    walls: set[Cell]
    visited: list[int] = field(default_factory=list)
    steps: int = 0
    right: int = 0

    def __post_init__(self) -> None:
        self.at = (self.side // 2, self.side // 2)

    def region(self, cell: Cell) -> int:
        x, y = cell
        for region in range(self.regions):
            left = self.side - self.size if region % 2 else 0
            top = self.side - self.size if region // 2 else 0
            if left <= x < left + self.size and top <= y < top + self.size:
                return region
        return -1

    def is_free(self, cell: Cell) -> bool:
        return all(0 <= c < self.side for c in cell) and cell not in self.walls

    def step(self, action: int) -> tuple[float, bool, bool, int]:
        """Reward, terminated, truncated, and the region that was entered first."""
        dx, dy = MOVES[action]
        to = (self.at[0] + dx, self.at[1] + dy)
        if self.is_free(to):
            self.at = to
        self.steps += 1
        entered, reward = self.region(self.at), -0.01
        if entered in self.visited:
            entered = -1
        if entered >= 0:
            wanted = next(region for region in self.hidden if region not in self.visited)
            self.visited.append(entered)
            if entered == wanted:
                reward += len(self.visited)
                self.right += 1
        terminated = len(self.visited) == self.regions
        return reward, terminated, self.steps >= self.max_steps and not terminated, entered

    def observe(self) -> list[float]:
        middle = (self.side - 1) / 2
        found = [2 * (c - middle) / self.side for c in self.at]
        for region in range(self.regions):
            cells = [(x, y) for x in range(self.side) for y in range(self.side)]
            own = [cell for cell in cells if self.region(cell) == region]
            for axis in (0, 1):
                mean = sum(cell[axis] for cell in own) / len(own)
                found.append((mean - self.at[axis]) / self.side)
            found.append(float(region in self.visited))
        for dy in range(-2, 3):
            for dx in range(-2, 3):
                found.append(float(not self.is_free((self.at[0] + dx, self.at[1] + dy))))
        return found

    def distance(self, target: int) -> int | None:
        """Steps to a region through no other region but the present one."""
        own = self.region(self.at)
        queue, seen = deque([(self.at, 0)]), {self.at}
        while queue:
            cell, steps = queue.popleft()
            if self.region(cell) == target:
                return steps
            for dx, dy in MOVES:
                to = (cell[0] + dx, cell[1] + dy)
                if to not in seen and self.is_free(to) and self.region(to) in (-1, own, target):
                    seen.add(to)
                    queue.append((to, steps + 1))
        return None
