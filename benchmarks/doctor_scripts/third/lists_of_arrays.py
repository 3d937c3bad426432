"""DQN on LunarLander-like data whose minibatches are tensors made of lists of arrays.

`--fixed` joins the arrays first.
"""

import random
from collections import namedtuple

import numpy as np
import torch
from started import finish, parse
from torch import nn

Transition = namedtuple("Transition", "state action reward following done")


class Drone:
    """Hover at a height; the observation has 64 numbers of a distance sensor."""

    def __init__(self, seed):
        self.rng = np.random.default_rng(seed)
        self.angles = np.linspace(-1, 1, 64)

    def reset(self):
        self.height, self.speed, self.time = 5.0, 0.0, 0
        return self.sense()

    def sense(self):
        noise = self.rng.normal(scale=0.01, size=64)
        return (self.height / 10 * np.cos(self.angles) + noise).astype(np.float32)

    def step(self, action):
        self.speed += (0.3 if action else 0.0) - 0.12
        self.height += 0.1 * self.speed
        self.time += 1
        crashed = not 0 < self.height < 10
        return self.sense(), -abs(self.height - 5), crashed, self.time == 300, {}


class Memory:
    def __init__(self):
        self.items = []

    def remember(self, item):
        self.items.append(item)
        if len(self.items) > 20_000:
            del self.items[:10_000]


def to_tensor(values, fixed):
    return torch.tensor(np.array(values) if fixed else values, dtype=torch.float32)


def learn(model, target, optimizer, memory, fixed):
    batch = Transition(*zip(*random.sample(memory.items, 128), strict=True))
    states = to_tensor(list(batch.state), fixed)
    followings = to_tensor(list(batch.following), fixed)
    actions = torch.tensor(batch.action)[:, None]
    rewards, done = torch.tensor(batch.reward), torch.tensor(batch.done).float()
    with torch.no_grad():
        goal = rewards.float() + 0.97 * (1 - done) * target(followings).max(1)[0]
    loss = nn.functional.mse_loss(model(states).gather(1, actions)[:, 0], goal)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()


def main():
    args, begin = parse(steps=6_000)
    random.seed(args.seed)
    torch.manual_seed(args.seed)
    torch.set_num_threads(1)
    drone, memory = Drone(args.seed), Memory()
    model, target = (
        nn.Sequential(nn.Linear(64, 64), nn.ReLU(), nn.Linear(64, 2)) for _ in range(2)
    )
    optimizer = torch.optim.SGD(model.parameters(), lr=1e-2)
    state = drone.reset()
    for step in range(args.steps):
        with torch.no_grad():
            action = int(model(torch.from_numpy(state)).argmax())
        if random.random() < 0.1:
            action = random.randrange(2)
        following, reward, done, cut, _ = drone.step(action)
        memory.remember(Transition(state, action, reward, following, done))
        state = drone.reset() if done or cut else following
        if step > 300 and step % 2 == 0:
            learn(model, target, optimizer, memory, args.fixed)
        if step % 400 == 0:
            target.load_state_dict(model.state_dict())
    finish(args.steps, begin)


if __name__ == "__main__":
    main()
