"""Q-learning on CartPole with a memory of Python objects and garbage emptied every ten episodes.

`--fixed` leaves the garbage collection to Python.
"""

import gc
import random
from typing import NamedTuple

import gymnasium as gym
import numpy as np
import torch
from options import Stopwatch, from_command_line
from torch.nn import Linear, ReLU, Sequential
from torch.nn.functional import smooth_l1_loss


class Experience(NamedTuple):
    before: np.ndarray
    action: int
    reward: float
    after: np.ndarray
    lost: bool


class Learner:
    def __init__(self, fixed):
        self.net = Sequential(Linear(4, 64), ReLU(), Linear(64, 64), ReLU(), Linear(64, 2))
        self.frozen = Sequential(Linear(4, 64), ReLU(), Linear(64, 64), ReLU(), Linear(64, 2))
        self.optimizer = torch.optim.Adam(self.net.parameters(), lr=5e-4)
        self.updates, self.fixed = 0, fixed

    def greedy(self, obs):
        with torch.no_grad():
            return int(self.net(torch.from_numpy(obs)).argmax())

    def learn(self, batch):
        before = torch.from_numpy(np.stack([e.before for e in batch]))
        after = torch.from_numpy(np.stack([e.after for e in batch]))
        action = torch.tensor([e.action for e in batch])
        reward = torch.tensor([e.reward for e in batch])
        going = torch.tensor([not e.lost for e in batch])
        with torch.no_grad():
            target = reward + 0.99 * going * self.frozen(after).amax(1)
        loss = smooth_l1_loss(self.net(before)[torch.arange(len(batch)), action], target)
        self.optimizer.zero_grad(set_to_none=True)
        loss.backward()
        self.optimizer.step()
        self.updates += 1
        if self.updates % 250 == 0:
            self.frozen.load_state_dict(self.net.state_dict())

    def release(self):
        """Memory grew in an earlier version."""
        if not self.fixed:
            gc.collect()


def train(options):
    random.seed(options.seed)
    env = gym.make("CartPole-v1")
    learner, memory = Learner(options.fixed), []
    obs, _ = env.reset(seed=options.seed)
    episodes = 0
    watch = Stopwatch()
    for step in range(options.steps):
        action = random.randrange(2) if random.random() < 0.1 else learner.greedy(obs)
        after, reward, lost, cut, _ = env.step(action)
        experience = Experience(obs, action, reward, after, lost)
        if len(memory) < 20_000:
            memory.append(experience)
        else:
            memory[step % 20_000] = experience
        obs = after
        if lost or cut:
            episodes += 1
            if episodes % 10 == 0:
                learner.release()
            obs, _ = env.reset()
        if step > 500 and step % 4 == 0:
            learner.learn(random.sample(memory, 64))
    watch.report(options.steps)


if __name__ == "__main__":
    torch.set_num_threads(1)
    torch.manual_seed(0)
    train(from_command_line(steps=20_000))
