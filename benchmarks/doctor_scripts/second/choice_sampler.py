"""Soft Q-learning on Acrobot with a memory that draws minibatches without replacement.

`choice(..., replace=False)` permutes the whole memory for 64 rows. `--fixed` draws random rows.
"""

import gymnasium
import numpy as np
import torch
from options import Stopwatch, from_command_line
from torch import nn, optim


class Memory:
    def __init__(self, capacity, fixed):
        self.rows = np.empty((capacity, 6 + 6 + 3), np.float32)
        self.count, self.fixed = 0, fixed

    def prefill(self):
        """Random transitions, so that learning starts with a full memory."""
        self.count = len(self.rows)
        self.rows[:, :12] = np.random.normal(0, 1, (self.count, 12))
        self.rows[:, 12] = np.random.randint(0, 3, self.count)
        self.rows[:, 13:] = (-1.0, 0.0)

    def remember(self, *parts):
        self.rows[self.count % len(self.rows)] = np.concatenate(parts)
        self.count += 1

    def minibatch(self, size):
        filled = min(self.count, len(self.rows))
        if self.fixed:
            picked = np.random.randint(0, filled, size)
        else:
            picked = np.random.choice(filled, size, replace=False)
        return torch.from_numpy(self.rows[picked])


def soft_value(q, temperature=0.1):
    return temperature * torch.logsumexp(q / temperature, dim=1)


def main():
    options = from_command_line(steps=14_000)
    torch.set_num_threads(1)
    torch.manual_seed(options.seed)
    env = gymnasium.make("Acrobot-v1")
    np.random.seed(options.seed)
    memory = Memory(100_000, options.fixed)
    memory.prefill()
    q = nn.Sequential(
        nn.Linear(6, 128), nn.ReLU(), nn.Linear(128, 128), nn.ReLU(), nn.Linear(128, 3)
    )
    slow = nn.Sequential(
        nn.Linear(6, 128), nn.ReLU(), nn.Linear(128, 128), nn.ReLU(), nn.Linear(128, 3)
    )
    slow.load_state_dict(q.state_dict())
    adam = optim.Adam(q.parameters(), 1e-3)
    state, _ = env.reset(seed=options.seed)
    watch = Stopwatch()
    for step in range(options.steps):
        with torch.no_grad():
            policy = (q(torch.from_numpy(state)) / 0.1).softmax(0)
        action = int(torch.multinomial(policy, 1))
        following, reward, terminated, truncated, _ = env.step(action)
        memory.remember(state, following, (action, reward, terminated))
        state = env.reset()[0] if terminated or truncated else following
        if step % 2 == 0:
            batch = memory.minibatch(64)
            with torch.no_grad():
                target = batch[:, 13] + 0.99 * (1 - batch[:, 14]) * soft_value(slow(batch[:, 6:12]))
            predicted = q(batch[:, :6]).gather(1, batch[:, 12:13].long()).squeeze(1)
            error = nn.functional.huber_loss(predicted, target)
            adam.zero_grad()
            error.backward()
            adam.step()
            with torch.no_grad():
                for old, new in zip(slow.parameters(), q.parameters(), strict=True):
                    old.lerp_(new, 0.01)
    watch.report(options.steps)


main()
