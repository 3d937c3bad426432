"""Q-learning of a warehouse robot on consecutive moves, with a wrapper that keeps its history.

The wrapper deep-copies the whole world at every step for a debugger. `--fixed` keeps no copies.
"""

import copy
from collections import deque

import numpy as np
import torch
from options import Stopwatch, from_command_line
from torch import nn


class Warehouse:
    """Carry parcels from shelves to the door of a 12x12 hall; nested dicts hold its state."""

    moves = {0: (0, 1), 1: (0, -1), 2: (1, 0), 3: (-1, 0)}

    def __init__(self, seed):
        self.rng = np.random.default_rng(seed)

    def reset(self):
        self.state = {
            "robot": {"at": [0, 0], "carries": None},
            "shelves": {
                f"shelf {i}": {
                    "at": tuple(self.rng.integers(1, 12, 2).tolist()),
                    "parcels": [i] * 3,
                }
                for i in range(20)
            },
            "delivered": 0,
            "moves": 0,
        }
        return self.observe()

    def step(self, action):
        robot = self.state["robot"]
        robot["at"] = [
            min(11, max(0, x + d)) for x, d in zip(robot["at"], self.moves[action], strict=True)
        ]
        reward = -0.01
        if robot["at"] == [0, 0] and robot["carries"] is not None:
            reward, robot["carries"] = 1.0, None
            self.state["delivered"] += 1
        for shelf in self.state["shelves"].values():
            if robot["carries"] is None and shelf["parcels"] and shelf["at"] == tuple(robot["at"]):
                robot["carries"] = shelf["parcels"].pop()
        self.state["moves"] += 1
        return self.observe(), reward, False, self.state["moves"] >= 150, {}

    def observe(self):
        row, column = self.state["robot"]["at"]
        carries = self.state["robot"]["carries"] is not None
        return np.array([row / 12, column / 12, carries], np.float32)


class Recorder:
    """Remembers the last worlds, to look at them after an error."""

    def __init__(self, env, keeps_copies):
        self.env, self.keeps_copies = env, keeps_copies
        self.worlds = deque(maxlen=50)

    def reset(self):
        self.worlds.clear()
        return self.env.reset()

    def step(self, action):
        if self.keeps_copies:
            self.worlds.append(copy.deepcopy(self.env.state))
        return self.env.step(action)


def main():
    options = from_command_line(steps=60_000)
    torch.set_num_threads(1)
    torch.manual_seed(options.seed)
    env = Recorder(Warehouse(options.seed), keeps_copies=not options.fixed)
    network = nn.Sequential(nn.Linear(3, 48), nn.ReLU(), nn.Linear(48, 4))
    sgd = torch.optim.SGD(network.parameters(), lr=0.01)
    watch = Stopwatch()
    obs = torch.from_numpy(env.reset())
    delivered, last = 0.0, []
    for step in range(options.steps):
        with torch.no_grad():
            q = network(obs)
        action = int(q.argmax()) if np.random.random() > 0.1 else np.random.randint(4)
        following, reward, _, cut, _ = env.step(action)
        following = torch.from_numpy(following)
        last.append((obs, action, reward, following))
        delivered += reward > 0
        obs = torch.from_numpy(env.reset()) if cut else following
        if len(last) == 32:
            x, nxt = torch.stack([t[0] for t in last]), torch.stack([t[3] for t in last])
            with torch.no_grad():
                goal = torch.tensor([t[2] for t in last]) + 0.95 * network(nxt).max(1).values
            q = network(x).gather(1, torch.tensor([[t[1]] for t in last])).squeeze(1)
            sgd.zero_grad()
            (q - goal).square().mean().backward()
            sgd.step()
            last.clear()
    print(f"{delivered:.0f} parcels")
    watch.report(options.steps)


if __name__ == "__main__":
    main()
