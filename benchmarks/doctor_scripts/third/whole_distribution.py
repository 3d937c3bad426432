"""Prioritized DQN on CartPole that normalizes all priorities for every minibatch.

`--fixed` draws from a running sum of the priorities that is renewed every 50 minibatches.
"""

import gymnasium as gym
import numpy as np
import torch
from started import finish, parse
from torch import nn

CAPACITY, BATCH, ALPHA = 50_000, 64, 0.6


class PrioritizedReplay:
    def __init__(self, rng, fixed):
        self.rng, self.fixed = rng, fixed
        self.rows = np.zeros((CAPACITY, 11), np.float32)
        self.priorities = np.zeros(CAPACITY)
        self.size, self.draws = CAPACITY // 2, 0
        # As if resumed from an earlier run.
        self.rows[: self.size] = rng.normal(scale=0.05, size=(self.size, 11))
        self.rows[: self.size, 8:11] = 0, 1, 0
        self.priorities[: self.size] = rng.uniform(0.1, 1, self.size)

    def append(self, row):
        at = self.size % CAPACITY
        self.rows[at] = row
        self.priorities[at] = self.priorities.max() if not self.fixed else 1.0
        self.size += 1

    def sample(self):
        count = min(self.size, CAPACITY)
        if self.fixed:
            if self.draws % 50 == 0:
                self.sums = np.cumsum(self.priorities[:count] ** ALPHA)
            self.draws += 1
            at = np.searchsorted(self.sums, self.rng.uniform(0, self.sums[-1], BATCH))
            return at, torch.from_numpy(self.rows[at])
        scaled = self.priorities[:count] ** ALPHA
        probabilities = scaled / scaled.sum()
        at = self.rng.choice(count, BATCH, p=probabilities)
        return at, torch.from_numpy(self.rows[at])


def main():
    args, begin = parse(steps=10_000)
    torch.set_num_threads(1)
    torch.manual_seed(args.seed)
    rng = np.random.default_rng(args.seed)
    env = gym.make("CartPole-v1")
    replay = PrioritizedReplay(rng, args.fixed)
    online = nn.Sequential(nn.Linear(4, 64), nn.ReLU(), nn.Linear(64, 2))
    frozen = nn.Sequential(nn.Linear(4, 64), nn.ReLU(), nn.Linear(64, 2))
    optimizer = torch.optim.Adam(online.parameters(), lr=5e-4)
    obs, _ = env.reset(seed=args.seed)
    for step in range(args.steps):
        with torch.no_grad():
            action = int(online(torch.from_numpy(obs)).argmax())
        action = action if rng.random() > 0.1 else int(rng.integers(2))
        following, reward, terminated, truncated, _ = env.step(action)
        replay.append(np.concatenate([obs, following, (action, reward, terminated)]))
        obs = env.reset()[0] if terminated or truncated else following
        if step % 4 == 0:
            at, rows = replay.sample()
            with torch.no_grad():
                goal = rows[:, 9] + 0.99 * (1 - rows[:, 10]) * frozen(rows[:, 4:8]).amax(1)
            error = online(rows[:, :4]).gather(1, rows[:, 8:9].long())[:, 0] - goal
            optimizer.zero_grad()
            error.square().mean().backward()
            optimizer.step()
            replay.priorities[at] = error.detach().abs().numpy() + 1e-3
        if step % 500 == 0:
            frozen.load_state_dict(online.state_dict())
    finish(args.steps, begin)


if __name__ == "__main__":
    main()
