"""DQN for trading one share: every transition of a minibatch is fitted by itself.

`--fixed` fits the minibatch at once.
"""

import random
from collections import deque

import numpy as np
import torch
from started import finish, parse
from torch import nn


class Market:
    """Buy, sell or hold while a price follows a noisy wave."""

    def __init__(self, seed):
        self.rng = np.random.default_rng(seed)

    def reset(self):
        self.day, self.held = 0, 0.0
        noise = self.rng.normal(scale=0.3, size=260)
        self.prices = 50 + 8 * np.sin(np.arange(260) / 9) + noise.cumsum()
        return self.observe()

    def observe(self):
        window = self.prices[self.day : self.day + 9]
        return np.append(np.diff(window), self.held).astype(np.float32)

    def step(self, action):
        if action:
            self.held = 1.0 if action == 1 else 0.0
        change = self.prices[self.day + 9] - self.prices[self.day + 8]
        self.day += 1
        return self.observe(), self.held * change, self.day == 250, False, {}


class Agent:
    def __init__(self, fixed):
        self.model = nn.Sequential(
            nn.Linear(9, 64), nn.ReLU(), nn.Linear(64, 32), nn.ReLU(), nn.Linear(32, 3)
        )
        self.optimizer = torch.optim.Adam(self.model.parameters(), lr=1e-3)
        self.memory = deque(maxlen=2000)
        self.fixed = fixed

    def act(self, state):
        if random.random() < 0.1:
            return random.randrange(3)
        with torch.no_grad():
            return int(self.model(torch.from_numpy(state)).argmax())

    def replay(self, size=32):
        batch = random.sample(self.memory, size)
        if self.fixed:
            columns = [torch.from_numpy(np.stack(column)) for column in zip(*batch, strict=True)]
            self.fit(*columns)
            return
        for state, action, reward, following, done in batch:
            parts = (state[None], [action], [reward], following[None], [done])
            self.fit(*(torch.from_numpy(np.asarray(part)) for part in parts))

    def fit(self, states, actions, rewards, followings, done):
        with torch.no_grad():
            best = self.model(followings).max(1).values
            targets = rewards.float() + 0.95 * best * (~done.bool()).float()
        values = self.model(states).gather(1, actions[:, None])[:, 0]
        loss = nn.functional.mse_loss(values, targets)
        self.optimizer.zero_grad()
        loss.backward()
        self.optimizer.step()


args, begin = parse(steps=6_000)
torch.set_num_threads(1)
torch.manual_seed(args.seed)
random.seed(args.seed)
market, agent = Market(args.seed), Agent(args.fixed)
state = market.reset()
for step in range(args.steps):
    action = agent.act(state)
    following, reward, done, _, _ = market.step(action)
    agent.memory.append((state, action, np.float32(reward), following, done))
    state = market.reset() if done else following
    if step > 64 and step % 8 == 0:
        agent.replay()
finish(args.steps, begin)
