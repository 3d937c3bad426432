"""TD3-like learning on Pendulum that pickles its replay memory with the networks every 200 steps.

`--fixed` saves only the networks, every 2,000 steps.
"""

import pickle

import gymnasium as gym
import numpy as np
import torch
from started import finish, parse
from torch import nn


def net(inputs, outputs):
    return nn.Sequential(nn.Linear(inputs, 128), nn.ReLU(), nn.Linear(128, outputs))


class Trainer:
    def __init__(self, args):
        self.rng = np.random.default_rng(args.seed)
        self.env = gym.make("Pendulum-v1")
        self.actor, self.critic, self.critic_old = net(3, 1), net(4, 1), net(4, 1)
        self.opt_actor = torch.optim.Adam(self.actor.parameters(), lr=1e-3)
        self.opt_critic = torch.optim.Adam(self.critic.parameters(), lr=1e-3)
        self.memory = []
        self.fixed = args.fixed

    def train(self, steps):
        obs, _ = self.env.reset(seed=0)
        for step in range(steps):
            with torch.no_grad():
                mean = 2 * torch.tanh(self.actor(torch.from_numpy(obs))).numpy()
            action = np.clip(mean + self.rng.normal(scale=0.2, size=1), -2, 2).astype(np.float32)
            following, reward, _, truncated, _ = self.env.step(action)
            row = np.concatenate([obs, action, [reward / 10], following]).astype(np.float32)
            self.memory.append(row)
            obs = self.env.reset()[0] if truncated else following
            if step > 100 and step % 2 == 0:
                self.learn()
            if step % (2000 if self.fixed else 200) == 0:
                self.checkpoint("agent.pkl")

    def learn(self):
        rows = [self.memory[i] for i in self.rng.integers(0, len(self.memory), 64)]
        batch = torch.from_numpy(np.stack(rows))
        obs, action, reward, following = batch.split([3, 1, 1, 3], dim=1)
        with torch.no_grad():
            next_action = 2 * torch.tanh(self.actor(following))
            goal = reward + 0.98 * self.critic_old(torch.cat([following, next_action], 1))
        loss = nn.functional.mse_loss(self.critic(torch.cat([obs, action], 1)), goal)
        self.opt_critic.zero_grad()
        loss.backward()
        self.opt_critic.step()
        score = -self.critic(torch.cat([obs, 2 * torch.tanh(self.actor(obs))], 1)).mean()
        self.opt_actor.zero_grad()
        score.backward()
        self.opt_actor.step()
        with torch.no_grad():
            pairs = zip(self.critic_old.parameters(), self.critic.parameters(), strict=True)
            for old, new in pairs:
                old.lerp_(new, 0.01)

    def checkpoint(self, path):
        state = {"actor": self.actor.state_dict(), "critic": self.critic.state_dict()}
        if not self.fixed:
            state["memory"] = self.memory
        with open(path, "wb") as file:
            pickle.dump(state, file)


if __name__ == "__main__":
    args, begin = parse(steps=12_000)
    torch.set_num_threads(1)
    torch.manual_seed(args.seed)
    Trainer(args).train(args.steps)
    finish(args.steps, begin)
