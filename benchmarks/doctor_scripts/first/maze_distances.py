"""Q-learning in a maze whose observation holds path lengths, searched anew at every step.

`--fixed`: searched once per cell, then looked up.
"""

import time
from collections import deque

import numpy as np
import torch
from arguments import parse_args
from dqn import DQNAgent
from replay import ReplayBuffer

SIZE = 12
MOVES = ((0, 1), (1, 0), (0, -1), (-1, 0))


class Maze:
    """Walk to the exit of a room with walls; observations are path lengths by each move."""

    def __init__(self, seed, remembers):
        self.rng = np.random.default_rng(seed)
        self.walls = self.rng.random((SIZE, SIZE)) < 0.2
        self.walls[0, 0] = self.walls[-1, -1] = False
        self.remembers, self.known = remembers, {}

    def reset(self):
        free = np.argwhere(~self.walls)
        self.cell = tuple(self.rng.choice(free).tolist())
        self.age = 0
        return self.features()

    def step(self, action):
        cell = (self.cell[0] + MOVES[action][0], self.cell[1] + MOVES[action][1])
        if self.is_free(cell):
            self.cell = cell
        self.age += 1
        arrived = self.cell == (SIZE - 1, SIZE - 1)
        return self.features(), 1.0 if arrived else -0.02, arrived, self.age >= 80, {}

    def is_free(self, cell):
        return 0 <= cell[0] < SIZE and 0 <= cell[1] < SIZE and not self.walls[cell]

    def features(self):
        if self.cell in self.known:
            return self.known[self.cell]
        found = [self.path_length((self.cell[0] + d, self.cell[1] + r)) for d, r in MOVES]
        result = np.array([*found, self.cell[0] / SIZE, self.cell[1] / SIZE], np.float32)
        if self.remembers:
            self.known[self.cell] = result
        return result

    def path_length(self, start):
        """Steps to the exit by breadth-first search, scaled; 1 if there is no way."""
        if not self.is_free(start):
            return 1.0
        queue, seen = deque([(start, 0)]), {start}
        while queue:
            (row, column), length = queue.popleft()
            if (row, column) == (SIZE - 1, SIZE - 1):
                return length / SIZE**2
            for down, right in MOVES:
                cell = (row + down, column + right)
                if self.is_free(cell) and cell not in seen:
                    seen.add(cell)
                    queue.append((cell, length + 1))
        return 1.0


def main():
    args = parse_args(__doc__, steps=14_000)
    torch.manual_seed(args.seed)
    torch.set_num_threads(1)
    maze = Maze(args.seed, remembers=args.fixed)
    agent, buffer = DQNAgent(6, 4), ReplayBuffer(10_000, 6)
    obs, start = maze.reset(), time.time()
    for step in range(args.steps):
        action = int(agent.act(torch.from_numpy(obs[None])))
        next_obs, reward, terminated, truncated, _ = maze.step(action)
        buffer.push(obs, action, reward, next_obs, terminated)
        obs = maze.reset() if terminated or truncated else next_obs
        if step > 200 and step % 4 == 0:
            agent.update(*buffer.sample(64))
    print(f"{args.steps} steps in {time.time() - start:.2f} s")


if __name__ == "__main__":
    main()
