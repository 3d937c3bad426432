"""DQN on one CartPole that writes a row per step and syncs the file. `--fixed`: buffered."""

import csv
import os
import tempfile
import time

import gymnasium as gym
import torch
from arguments import parse_args
from dqn import DQNAgent
from replay import ReplayBuffer


class StepTable:
    """CSV file with one row per step."""

    def __init__(self, folder, syncs):
        self.file = open(os.path.join(folder, "steps.csv"), "w", newline="")
        self.writer = csv.writer(self.file)
        self.writer.writerow(["step", "action", "reward", "loss"])
        self.syncs = syncs

    def add(self, *row):
        self.writer.writerow(row)
        if self.syncs:
            self.file.flush()
            os.fsync(self.file.fileno())

    def close(self):
        self.file.close()


def main():
    args = parse_args(__doc__, steps=6_000)
    torch.manual_seed(args.seed)
    torch.set_num_threads(1)
    env = gym.make("CartPole-v1")
    agent, buffer = DQNAgent(4, 2), ReplayBuffer(10_000, 4)
    loss = torch.zeros(())
    with tempfile.TemporaryDirectory(dir=".") as folder:
        table = StepTable(folder, syncs=not args.fixed)
        obs, _ = env.reset(seed=args.seed)
        start = time.time()
        for step in range(args.steps):
            action = int(agent.act(torch.from_numpy(obs[None])))
            next_obs, reward, terminated, truncated, _ = env.step(action)
            buffer.push(obs, action, reward, next_obs, terminated)
            if step > 200:
                loss = agent.update(*buffer.sample(64))
            table.add(step, action, reward, float(loss))
            obs = env.reset()[0] if terminated or truncated else next_obs
        seconds = time.time() - start
        table.close()
    print(f"{args.steps} steps in {seconds:.2f} s")


if __name__ == "__main__":
    main()
