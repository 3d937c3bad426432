"""REINFORCE on a maze class of its own, which follows no interface except a method `step`."""

import argparse
import time

import numpy as np
import torch
from torch import nn

DIRECTIONS = ((0, 1), (1, 0), (0, -1), (-1, 0))


class Maze:
    """Find the exit of a room with pillars. `begin` starts a game; `step` plays one move."""

    def __init__(self, size: int, seed: int):
        self.rng = np.random.default_rng(seed)
        self.size = size
        self.walls = np.zeros((size, size), bool)
        self.walls[2::3, 2::3] = True

    def begin(self):
        self.row = self.column = 0
        self.moves = 0
        return self.view()

    def step(self, move):
        down, right = DIRECTIONS[move]
        row, column = self.row + down, self.column + right
        inside = 0 <= row < self.size and 0 <= column < self.size
        if inside and not self.walls[row, column]:
            self.row, self.column = row, column
        self.moves += 1
        found = self.row == self.column == self.size - 1
        return self.view(), (1.0 if found else -0.01), found or self.moves >= 100

    def view(self):
        return [self.row / self.size, self.column / self.size, self.moves / 100, 1.0]


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--episodes", type=int, default=3_000)
    parser.add_argument("--seed", type=int, default=3)
    args = parser.parse_args()
    torch.set_num_threads(1)
    torch.manual_seed(args.seed)
    maze = Maze(8, args.seed)
    policy = nn.Sequential(nn.Linear(4, 64), nn.Tanh(), nn.Linear(64, 4))
    optimizer = torch.optim.Adam(policy.parameters(), lr=3e-3)
    began = time.perf_counter()
    steps, batch = 0, []
    for episode in range(args.episodes):
        view, over, views, moves, rewards = maze.begin(), False, [], [], []
        while not over:
            with torch.no_grad():
                probs = policy(torch.tensor(view)).softmax(0)
            move = int(torch.multinomial(probs, 1))
            views.append(view)
            moves.append(move)
            view, reward, over = maze.step(move)
            rewards.append(reward)
        steps += len(moves)
        returns = np.cumsum(rewards[::-1])[::-1]
        batch.append((views, moves, returns))
        if len(batch) == 10:
            x = torch.tensor([view for views, _, _ in batch for view in views])
            y = torch.tensor([move for _, moves, _ in batch for move in moves])
            g = torch.tensor(
                np.concatenate([returns for _, _, returns in batch]), dtype=torch.float32
            )
            log_prob = policy(x).log_softmax(1).gather(1, y[:, None]).squeeze(1)
            loss = -(log_prob * (g - g.mean())).mean()
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            batch = []
        if (episode + 1) % 100 == 0:
            print(f"episode {episode + 1}: {len(moves)} moves")
    print(f"{steps} steps in {time.perf_counter() - began:.2f} s")


if __name__ == "__main__":
    main()
