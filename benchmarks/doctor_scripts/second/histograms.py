"""Double DQN on LunarLander-like physics that writes histograms of all weights after each update.

`--fixed` writes them every 500 updates.
"""

import tempfile

import numpy as np
import torch
from options import Stopwatch, from_command_line
from torch import nn
from torch.utils.tensorboard import SummaryWriter


class Landers:
    """Sixteen capsules that fall on a flat planet; thrust left, right, up, or none."""

    num_envs = 16

    def __init__(self, seed):
        self.rng = np.random.default_rng(seed)

    def reset(self):
        self.state = self._start(self.num_envs)
        return self.state.copy()

    def _start(self, n):
        state = np.zeros((n, 4), np.float32)
        state[:, 0] = self.rng.uniform(-1, 1, n)
        state[:, 1] = 2.0
        return state

    def step(self, action):
        state = self.state
        state[:, 2] += 0.02 * ((action == 1).astype(np.float32) - (action == 2))
        state[:, 3] += 0.04 * (action == 3) - 0.02
        state[:, :2] += 0.1 * state[:, 2:]
        down = state[:, 1] <= 0
        reward = np.where(down, 1 - np.abs(state[:, 0]) - np.abs(state[:, 3]), -0.01).astype(
            np.float32
        )
        after = state.copy()
        state[down] = self._start(int(down.sum()))
        return state.copy(), reward, down, np.zeros(self.num_envs, bool), {"after": after}


class DoubleDQN:
    def __init__(self, writer, every):
        self.online, self.target = self._network(), self._network()
        self.target.load_state_dict(self.online.state_dict())
        self.adam = torch.optim.Adam(self.online.parameters(), lr=5e-4)
        self.writer, self.every, self.updates = writer, every, 0

    @staticmethod
    def _network():
        return nn.Sequential(
            nn.Linear(4, 96), nn.ReLU(), nn.Linear(96, 96), nn.ReLU(), nn.Linear(96, 4)
        )

    def update(self, obs, action, reward, after, down):
        with torch.no_grad():
            best = self.online(after).argmax(1, keepdim=True)
            goal = reward + 0.98 * ~down * self.target(after).gather(1, best).squeeze(1)
        error = self.online(obs).gather(1, action[:, None]).squeeze(1) - goal
        self.adam.zero_grad()
        error.square().mean().backward()
        self.adam.step()
        self.updates += 1
        if self.updates % 200 == 0:
            self.target.load_state_dict(self.online.state_dict())
        self.record(error)

    def record(self, error):
        if self.updates % self.every == 0:
            for name, weight in self.online.named_parameters():
                self.writer.add_histogram(f"weights/{name}", weight, self.updates)
                self.writer.add_histogram(f"gradients/{name}", weight.grad, self.updates)
            self.writer.add_scalar("error", error.abs().mean(), self.updates)


def main():
    options = from_command_line(steps=30_000)
    torch.set_num_threads(1)
    torch.manual_seed(options.seed)
    rng = np.random.default_rng(options.seed)
    envs = Landers(options.seed)
    n, capacity = envs.num_envs, 16_000
    obs_ring, after_ring = np.zeros((2, capacity, 4), np.float32)
    action_ring, down_ring = np.zeros(capacity, np.int64), np.zeros(capacity, bool)
    reward_ring = np.zeros(capacity, np.float32)
    with tempfile.TemporaryDirectory() as folder:
        writer = SummaryWriter(folder)
        agent = DoubleDQN(writer, every=500 if options.fixed else 1)
        obs, watch = envs.reset(), Stopwatch()
        for round_ in range(options.steps // n):
            with torch.no_grad():
                action = agent.online(torch.from_numpy(obs)).argmax(1).numpy()
            random = rng.random(n) < 0.1
            action[random] = rng.integers(0, 4, random.sum())
            following, reward, down, _, info = envs.step(action)
            rows = slice(round_ * n % capacity, round_ * n % capacity + n)
            obs_ring[rows], after_ring[rows] = obs, info["after"]
            action_ring[rows], reward_ring[rows], down_ring[rows] = action, reward, down
            obs = following
            if round_ >= 20:
                pick = rng.integers(0, min(capacity, (round_ + 1) * n), 128)
                fields = (obs_ring, action_ring, reward_ring, after_ring, down_ring)
                agent.update(*(torch.from_numpy(field[pick]) for field in fields))
        writer.close()
        watch.report(options.steps)


if __name__ == "__main__":
    main()
