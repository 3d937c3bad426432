"""PPO on CartPole in minibatches of four, so that calls cost more than arithmetic.

`--fixed` uses minibatches of 256 with the same number of epochs.
"""

import gymnasium as gym
import numpy as np
import torch
from options import Stopwatch, from_command_line
from torch import nn


class Policy(nn.Module):
    def __init__(self):
        super().__init__()
        self.shared = nn.Sequential(nn.Linear(4, 64), nn.ReLU())
        self.logits, self.value = nn.Linear(64, 2), nn.Linear(64, 1)

    def forward(self, x):
        hidden = self.shared(x)
        return torch.log_softmax(self.logits(hidden), 1), self.value(hidden)[:, 0]


class PPO:
    def __init__(self, minibatch, clip=0.2, epochs=3):
        self.policy, self.clip, self.epochs, self.minibatch = Policy(), clip, epochs, minibatch
        self.optimizer = torch.optim.Adam(self.policy.parameters(), lr=3e-4)

    @torch.no_grad()
    def act(self, obs):
        log_probs, value = self.policy(torch.from_numpy(obs))
        action = torch.multinomial(log_probs.exp(), 1)
        return action[:, 0].numpy(), log_probs.gather(1, action)[:, 0].numpy(), value.numpy()

    def improve(self, obs, action, old, advantage, returns):
        data = [torch.from_numpy(x) for x in (obs, action, old, advantage, returns)]
        count = len(obs)
        for _ in range(self.epochs):
            order = torch.randperm(count)
            for start in range(0, count, self.minibatch):
                rows = order[start : start + self.minibatch]
                self.step(*(field[rows] for field in data))

    def step(self, obs, action, old, advantage, returns):
        log_probs, value = self.policy(obs)
        ratio = torch.exp(log_probs.gather(1, action[:, None])[:, 0] - old)
        bounded = torch.clamp(ratio, 1 - self.clip, 1 + self.clip)
        objective = torch.min(ratio * advantage, bounded * advantage).mean()
        loss = (value - returns).pow(2).mean() - objective
        self.optimizer.zero_grad()
        loss.backward()
        self.optimizer.step()


def main():
    options = from_command_line(steps=40_960)
    torch.set_num_threads(1)
    torch.manual_seed(options.seed)
    envs = gym.make_vec("CartPole-v1", 16, vectorization_mode="vector_entry_point")
    ppo = PPO(minibatch=256 if options.fixed else 4)
    obs, _ = envs.reset(seed=options.seed)
    watch = Stopwatch()
    for _ in range(options.steps // 1024):
        rows = []
        for _ in range(64):
            action, old, value = ppo.act(obs)
            following, reward, lost, _, _ = envs.step(action)
            rows.append((obs, action, old, value, reward, lost))
            obs = following
        _, _, carried = ppo.act(obs)
        seen, actions, olds, values, rewards, ends = (np.stack(x) for x in zip(*rows, strict=True))
        returns = np.empty_like(values)
        for t in reversed(range(64)):
            returns[t] = carried = rewards[t] + 0.99 * carried * ~ends[t]
        advantage = returns - values
        advantage = (advantage - advantage.mean()) / (advantage.std() + 1e-8)
        flat = (
            seen.reshape(-1, 4),
            actions.ravel(),
            olds.ravel(),
            advantage.ravel(),
            returns.ravel(),
        )
        ppo.improve(*flat)
    watch.report(options.steps // 1024 * 1024)


if __name__ == "__main__":
    main()
