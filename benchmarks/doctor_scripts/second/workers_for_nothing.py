"""REINFORCE with a baseline on MountainCar in worker processes, although a step takes microseconds.

`--fixed` steps the environments in this process.
"""

import gymnasium as gym
import torch
from options import Stopwatch, from_command_line
from torch import nn

NUM_ENVS, LENGTH = 8, 100


def make_env():
    return gym.make("MountainCar-v0")


def open_envs(fixed):
    if fixed:
        return gym.vector.SyncVectorEnv([make_env] * NUM_ENVS)
    return gym.vector.AsyncVectorEnv([make_env] * NUM_ENVS)


class Baseline:
    """Mean reward to go at every time of a rollout, averaged over rollouts."""

    def __init__(self):
        self.mean = torch.zeros(LENGTH, 1)

    def subtract(self, to_go):
        self.mean.lerp_(to_go.mean(1, keepdim=True), 0.1)
        return to_go - self.mean


def main():
    options = from_command_line(steps=60_000)
    torch.set_num_threads(1)
    torch.manual_seed(options.seed)
    envs = open_envs(options.fixed)
    policy = nn.Sequential(nn.Linear(2, 64), nn.Tanh(), nn.Linear(64, 3))
    optimizer = torch.optim.Adam(policy.parameters(), lr=3e-3)
    baseline = Baseline()
    observations, _ = envs.reset(seed=options.seed)
    watch = Stopwatch()
    rounds = options.steps // (NUM_ENVS * LENGTH)
    for _ in range(rounds):
        seen = torch.empty(LENGTH, NUM_ENVS, 2)
        chosen = torch.empty(LENGTH, NUM_ENVS, dtype=torch.long)
        earned = torch.empty(LENGTH, NUM_ENVS)
        for t in range(LENGTH):
            seen[t] = torch.from_numpy(observations)
            with torch.no_grad():
                chosen[t] = torch.multinomial(policy(seen[t]).softmax(1), 1).squeeze(1)
            observations, rewards, _, _, _ = envs.step(chosen[t].numpy())
            earned[t] = torch.from_numpy(rewards) + 10 * seen[t, :, 1].abs()
        to_go = earned.flip(0).cumsum(0).flip(0)
        weights = baseline.subtract(to_go)
        log_probs = policy(seen).log_softmax(2).gather(2, chosen.unsqueeze(2)).squeeze(2)
        optimizer.zero_grad()
        (-(log_probs * weights).mean()).backward()
        optimizer.step()
    watch.report(rounds * NUM_ENVS * LENGTH)
    envs.close()


if __name__ == "__main__":
    main()
