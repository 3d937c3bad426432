"""DQN on MountainCar that draws every frame for a video nobody asked for.

`--fixed` draws none.
"""

import gymnasium as gym
import numpy as np
import torch
from started import finish, parse
from torch import nn, optim

args, begin = parse(steps=1_500)
torch.manual_seed(args.seed)
torch.set_num_threads(1)
rng = np.random.default_rng(args.seed)


class Filmed(gym.Wrapper):
    """Keeps the last frames of an episode."""

    def reset(self, **options):
        self.frames = []
        return self.env.reset(**options)

    def step(self, action):
        result = self.env.step(action)
        if not args.fixed:
            self.frames.append(self.env.render())
            self.frames = self.frames[-20:]
        return result


env = Filmed(gym.make("MountainCar-v0", render_mode="rgb_array"))
q = nn.Sequential(nn.Linear(2, 64), nn.ReLU(), nn.Linear(64, 3))
adam = optim.Adam(q.parameters(), lr=1e-3)
states, nexts = np.zeros((2, 5_000, 2), np.float32)
actions = np.zeros(5_000, np.int64)
obs, _ = env.reset(seed=args.seed)
for step in range(args.steps):
    if rng.random() < 0.2:
        action = int(rng.integers(3))
    else:
        with torch.no_grad():
            action = int(q(torch.from_numpy(obs)).argmax())
    following, reward, terminated, truncated, _ = env.step(action)
    states[step % 5_000], nexts[step % 5_000] = obs, following
    actions[step % 5_000] = action
    obs = env.reset()[0] if terminated or truncated else following
    if step > 100:
        rows = rng.integers(0, min(step, 5_000), 64)
        with torch.no_grad():
            goal = -1 + 0.99 * q(torch.from_numpy(nexts[rows])).amax(1)
        value = q(torch.from_numpy(states[rows]))
        value = value.gather(1, torch.from_numpy(actions[rows])[:, None])[:, 0]
        adam.zero_grad()
        nn.functional.smooth_l1_loss(value, goal).backward()
        adam.step()
finish(args.steps, begin)
