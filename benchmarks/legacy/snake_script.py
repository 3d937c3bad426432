"""The slow training loop that briskrl replaced, as one plain script: DQN on 256 games of Snake.

It pushes transitions one by one, makes `num_envs // 4` updates per vector step, and searches the
free cells with a Python queue per game and direction. `--batched-push`, `--updates 1` and
`--array-flood` are the fixes. It imports nothing of briskrl: the doctor is tested on it.
"""

import argparse
import csv
import os
import tempfile
import time
from collections import deque

import numpy as np
import torch
from torch import nn
from torch.nn import functional

SIZE = 10
MOVES = np.array([(-1, 0), (0, 1), (1, 0), (0, -1)])
TURNS = np.array([0, 1, 3])
CAPACITY, BATCH, GAMMA, TARGET_EVERY = 100_000, 64, 0.99, 500


class SnakeGames:
    """N games on one board each; a cell holds for how many steps it stays occupied."""

    def __init__(self, num_envs, rng, array_flood, flood=True):
        self.num_envs, self.rng = num_envs, rng
        self.flood = flood
        self.flood_fill = flood_by_arrays if array_flood else flood_by_queue
        self.games = np.arange(num_envs)
        self.life = np.zeros((num_envs, SIZE, SIZE), np.int64)
        self.head, self.food = np.zeros((2, num_envs, 2), np.int64)
        self.heading, self.length, self.hunger = np.zeros((3, num_envs), np.int64)

    def reset(self):
        self.restart(self.games)
        return self.observe()

    def restart(self, games):
        self.life[games] = 0
        self.head[games] = SIZE // 2
        self.heading[games] = self.rng.integers(4, size=len(games))
        self.length[games], self.hunger[games] = 3, 0
        self.life[games, SIZE // 2, SIZE // 2] = 3
        self.place_food(games)

    def place_food(self, games):
        for i in games:
            self.food[i] = self.rng.choice(np.argwhere(self.life[i] == 0))

    def step(self, actions):
        self.heading = (self.heading + TURNS[actions]) % 4
        self.head = self.head + MOVES[self.heading]
        self.hunger += 1
        inside = ((self.head >= 0) & (self.head < SIZE)).all(1)
        row, column = self.head.clip(0, SIZE - 1).T
        ate = inside & (self.head == self.food).all(1)
        self.life[~ate] = np.maximum(self.life[~ate] - 1, 0)
        dead = ~inside | (self.life[self.games, row, column] > 0)
        self.length += ate
        self.life[self.games, row, column] = self.length
        self.head = np.stack([row, column], 1)
        starved = ~dead & (self.hunger > 100)
        self.hunger[ate] = 0
        self.place_food(np.flatnonzero(ate & ~dead))
        reward = np.where(dead, -1.0, np.where(ate, 1.0, 0.0)).astype(np.float32)
        lengths = self.length[dead | starved]
        self.restart(np.flatnonzero(dead | starved))
        return self.observe(), reward, dead, starved, {"lengths": lengths}

    def observe(self):
        turned = (self.heading[:, None] + TURNS) % 4
        cells = self.head[:, None] + MOVES[turned]
        inside = ((cells >= 0) & (cells < SIZE)).all(2)
        row, column = cells.clip(0, SIZE - 1).transpose(2, 0, 1)
        blocked = ~inside | (self.life[self.games[:, None], row, column] > 1)
        ways = np.eye(4)[self.heading]
        offset = self.food - self.head
        towards = np.stack([offset[:, 0] < 0, offset[:, 0] > 0, offset[:, 1] < 0, offset[:, 1] > 0])
        parts = [blocked, ways, towards.T]
        if self.flood:
            parts.append(self.flood_fill(self.life > 1, cells, blocked))
        return np.concatenate(parts, axis=1).astype(np.float32)


def flood_by_queue(occupied, starts, blocked):
    """Reachable share of the board after each of three moves, (N, 3), by one search each."""
    result = np.zeros(blocked.shape, np.float32)
    for game in range(len(starts)):
        walls = {(int(row), int(column)) for row, column in np.argwhere(occupied[game])}
        for turn in range(3):
            if blocked[game, turn]:
                continue
            start = (int(starts[game, turn, 0]), int(starts[game, turn, 1]))
            queue, visited = deque([start]), {start}
            while queue:
                row, column = queue.popleft()
                for down, right in ((-1, 0), (0, 1), (1, 0), (0, -1)):
                    cell = (row + down, column + right)
                    if not (0 <= cell[0] < SIZE and 0 <= cell[1] < SIZE):
                        continue
                    if cell not in walls and cell not in visited:
                        visited.add(cell)
                        queue.append(cell)
            result[game, turn] = len(visited) / SIZE**2
    return result


def flood_by_arrays(occupied, starts, blocked):
    """The same for all games together: the reached cells grow by a step until none is new."""
    games, turns = np.nonzero(~blocked)
    reached = np.zeros((len(games), SIZE + 2, SIZE + 2), bool)
    cells = starts[games, turns] + 1
    reached[np.arange(len(games)), cells[:, 0], cells[:, 1]] = True
    inner = reached[:, 1:-1, 1:-1]
    free = ~occupied[games]
    count = -1
    while (now := int(inner.sum())) != count:
        count = now
        near = reached[:, :-2, 1:-1] | reached[:, 2:, 1:-1] | reached[:, 1:-1, :-2]
        inner |= (near | reached[:, 1:-1, 2:]) & free
    result = np.zeros(blocked.shape, np.float32)
    result[games, turns] = inner.sum((1, 2)) / SIZE**2
    return result


class ReplayBuffer:
    """A ring of arrays."""

    def __init__(self, obs_size):
        self.states, self.next_states = np.zeros((2, CAPACITY, obs_size), np.float32)
        self.actions = np.zeros(CAPACITY, np.int64)
        self.rewards, self.dones = np.zeros((2, CAPACITY), np.float32)
        self.position = self.size = 0

    def push(self, state, action, reward, next_state, done):
        at = self.position
        self.states[at], self.actions[at], self.rewards[at] = state, action, reward
        self.next_states[at], self.dones[at] = next_state, done
        self.position = (at + 1) % CAPACITY
        self.size = min(self.size + 1, CAPACITY)

    def push_batch(self, states, actions, rewards, next_states, dones):
        at = (self.position + np.arange(len(actions))) % CAPACITY
        self.states[at], self.actions[at], self.rewards[at] = states, actions, rewards
        self.next_states[at], self.dones[at] = next_states, dones
        self.position = (self.position + len(actions)) % CAPACITY
        self.size = min(self.size + len(actions), CAPACITY)

    def sample(self, rng):
        at = rng.integers(self.size, size=BATCH)
        fields = (self.states, self.actions, self.rewards, self.next_states, self.dones)
        return tuple(torch.from_numpy(column[at]) for column in fields)


class Trainer:
    def __init__(self, args, folder):
        self.args, self.num_envs = args, args.num_envs
        self.rng = np.random.default_rng(args.seed)
        self.env = SnakeGames(args.num_envs, self.rng, args.array_flood, not args.no_flood)
        obs_size = 11 if args.no_flood else 14
        self.policy_net, self.target_net = self.make_network(obs_size), self.make_network(obs_size)
        self.target_net.load_state_dict(self.policy_net.state_dict())
        self.optimizer = torch.optim.Adam(self.policy_net.parameters(), lr=1e-3)
        self.replay_buffer = ReplayBuffer(obs_size)
        self.table = open(os.path.join(folder, "episodes.csv"), "w", newline="")
        self.rows = csv.writer(self.table)
        self.total_steps = self.episode = self.updates = 0

    @staticmethod
    def make_network(obs_size):
        return nn.Sequential(
            nn.Linear(obs_size, 128), nn.ReLU(), nn.Linear(128, 128), nn.ReLU(), nn.Linear(128, 3)
        )

    def select_actions(self, states):
        epsilon = max(0.02, 1 - self.total_steps / 30_000)
        with torch.no_grad():
            greedy = self.policy_net(states).argmax(1)
        random = torch.from_numpy(self.rng.integers(3, size=self.num_envs))
        explore = torch.from_numpy(self.rng.random(self.num_envs) < epsilon)
        return torch.where(explore, random, greedy)

    def train_step(self):
        states, actions, rewards, next_states, dones = self.replay_buffer.sample(self.rng)
        with torch.no_grad():
            next_values = self.target_net(next_states).max(1).values
            targets = rewards + GAMMA * next_values * (1 - dones)
        values = self.policy_net(states).gather(1, actions[:, None]).squeeze(1)
        loss = functional.smooth_l1_loss(values, targets)
        self.optimizer.zero_grad()
        loss.backward()
        self.optimizer.step()
        self.updates += 1
        if self.updates % TARGET_EVERY == 0:
            self.target_net.load_state_dict(self.policy_net.state_dict())

    def train(self):
        states = torch.from_numpy(self.env.reset())
        while self.total_steps < self.args.steps:
            actions = self.select_actions(states)
            observed, reward, dead, _, info = self.env.step(actions.numpy())
            rewards, dones = torch.from_numpy(reward), torch.from_numpy(dead)
            next_states = torch.from_numpy(observed)
            if self.args.batched_push:
                columns = (states, actions, rewards, next_states, dones)
                self.replay_buffer.push_batch(*(column.cpu().numpy() for column in columns))
            else:
                for i in range(self.num_envs):
                    self.replay_buffer.push(
                        states[i].cpu().numpy(),
                        actions[i].item(),
                        rewards[i].item(),
                        next_states[i].cpu().numpy(),
                        dones[i].item(),
                    )
            states = next_states
            self.total_steps += self.num_envs
            num_train_steps = self.args.updates or max(1, self.num_envs // 4)
            for _ in range(num_train_steps):
                self.train_step()
            self.log(info["lengths"])
        self.table.close()

    def log(self, lengths):
        for length in lengths:
            self.episode += 1
            self.rows.writerow([self.episode, length - 3])
            if self.episode % 100 == 0:
                print(f"Episode {self.episode}: score {length - 3}", flush=True)
                self.table.flush()


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--steps", type=int, default=50_000)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--num-envs", type=int, default=256)
    parser.add_argument("--updates", type=int, help="per vector step; default: num_envs // 4")
    parser.add_argument("--no-flood", action="store_true", help="play with fewer features")
    parser.add_argument("--batched-push", action="store_true")
    parser.add_argument("--array-flood", action="store_true")
    args = parser.parse_args()
    torch.manual_seed(args.seed)
    torch.set_num_threads(1)
    with tempfile.TemporaryDirectory() as folder:
        trainer = Trainer(args, folder)
        start = time.time()
        trainer.train()
        print(f"{trainer.total_steps} steps in {time.time() - start:.2f} s")


if __name__ == "__main__":
    main()
