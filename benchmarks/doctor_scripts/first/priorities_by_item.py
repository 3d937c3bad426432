"""Prioritized DQN on 32 CartPoles that takes TD errors out of the tensor one by one.

`--fixed`: all at once.
"""

import time

import numpy as np
import torch
from arguments import parse_args
from cartpoles import make_cartpoles
from dqn import DQNAgent
from replay import ReplayBuffer

BATCH = 256


class Priorities:
    """Priority per row of the buffer; rows are drawn in proportion."""

    def __init__(self, capacity):
        self.values = np.full(capacity, 1e-3)

    def draw(self, size, count):
        edges = np.cumsum(self.values[:size])
        return np.searchsorted(edges, np.random.random(count) * edges[-1]).clip(max=size - 1)

    def set_all(self, rows, errors):
        self.values[rows] = errors.abs().numpy() + 1e-3

    def set_each(self, rows, errors):
        for k in range(len(rows)):
            self.values[rows[k].item()] = errors[k].abs().cpu().item() + 1e-3


def main():
    args = parse_args(__doc__, steps=150_000)
    torch.manual_seed(args.seed)
    np.random.seed(args.seed)
    torch.set_num_threads(1)
    envs = make_cartpoles(32)
    agent, buffer = DQNAgent(4, 2), ReplayBuffer(8_192, 4)
    priorities = Priorities(buffer.capacity)
    refresh = priorities.set_all if args.fixed else priorities.set_each
    obs, _ = envs.reset(seed=args.seed)
    start = time.time()
    for step in range(0, args.steps, 32):
        actions = agent.act(torch.from_numpy(obs)).numpy()
        next_obs, rewards, terminated, truncated, _ = envs.step(actions)
        buffer.push_batch(obs, actions, rewards, next_obs, terminated)
        obs = next_obs.copy()
        if step >= 512:
            rows = priorities.draw(buffer.size, BATCH)
            batch = (buffer.obs, buffer.actions, buffer.rewards, buffer.next_obs, buffer.dones)
            states, taken, reward, following, done = (torch.from_numpy(x[rows]) for x in batch)
            with torch.no_grad():
                target = reward + 0.99 * (1 - done) * agent.target_net(following).max(1).values
                errors = target - agent.q_net(states).gather(1, taken.unsqueeze(1)).squeeze(1)
            refresh(rows, errors)
            agent.update(states, taken, reward, following, done)
    print(f"{args.steps} steps in {time.time() - start:.2f} s")


if __name__ == "__main__":
    main()
