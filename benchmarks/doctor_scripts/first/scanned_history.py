"""DQN on 16 CartPoles that averages over its whole history at every step.

`--fixed`: a running mean.
"""

import time

import numpy as np
import torch
from arguments import parse_args
from cartpoles import make_cartpoles
from dqn import DQNAgent
from replay import ReplayBuffer


class Statistics:
    """Mean reward and loss since the start."""

    def __init__(self):
        self.rewards, self.losses = [], []

    def add(self, reward, loss):
        self.rewards.append(reward)
        self.losses.append(loss)

    def summary(self):
        return float(np.mean(self.rewards)), float(np.mean(self.losses))


class RunningStatistics:
    def __init__(self):
        self.count, self.means = 0, (0.0, 0.0)

    def add(self, *values):
        self.count += 1
        self.means = tuple(
            m + (v - m) / self.count for m, v in zip(self.means, values, strict=True)
        )

    def summary(self):
        return self.means


def main():
    args = parse_args(__doc__, steps=160_000)
    torch.manual_seed(args.seed)
    torch.set_num_threads(1)
    envs = make_cartpoles(16)
    agent, buffer = DQNAgent(4, 2), ReplayBuffer(20_000, 4)
    statistics = RunningStatistics() if args.fixed else Statistics()
    obs, _ = envs.reset(seed=args.seed)
    best, start = 0.0, time.time()
    for _ in range(args.steps // 16):
        actions = agent.act(torch.from_numpy(obs)).numpy()
        next_obs, rewards, terminated, truncated, _ = envs.step(actions)
        buffer.push_batch(obs, actions, rewards, next_obs, terminated)
        obs = next_obs.copy()
        loss = agent.update(*buffer.sample(64))
        statistics.add(float(rewards.mean()), float(loss))
        mean_reward, mean_loss = statistics.summary()
        best = max(best, mean_reward)
    print(f"best {best:.3f}, loss {mean_loss:.4f}")
    print(f"{args.steps} steps in {time.time() - start:.2f} s")


if __name__ == "__main__":
    main()
