"""DDPG on Pendulum whose networks compute in double precision.

Observations of the physics are float64, and the networks follow. `--fixed` uses float32.
"""

import gymnasium as gym
import numpy as np
import torch
import torch.nn.functional as F
from options import Stopwatch, from_command_line
from torch import nn


class Critic(nn.Module):
    def __init__(self, width=256):
        super().__init__()
        self.l1, self.l2, self.l3 = (
            nn.Linear(4, width),
            nn.Linear(width, width),
            nn.Linear(width, 1),
        )

    def forward(self, obs, act):
        return self.l3(F.relu(self.l2(F.relu(self.l1(torch.cat([obs, act], 1))))))


class Actor(nn.Module):
    def __init__(self, width=256):
        super().__init__()
        self.l1, self.l2, self.l3 = (
            nn.Linear(3, width),
            nn.Linear(width, width),
            nn.Linear(width, 1),
        )

    def forward(self, obs):
        return 2 * torch.tanh(self.l3(F.relu(self.l2(F.relu(self.l1(obs))))))


def follow(target, source, rate=0.005):
    with torch.no_grad():
        for slow, fast in zip(target.parameters(), source.parameters(), strict=True):
            slow += rate * (fast - slow)


options = from_command_line(steps=3_000)
torch.set_num_threads(1)
torch.manual_seed(options.seed)
rng = np.random.default_rng(options.seed)
torch.set_default_dtype(torch.float32 if options.fixed else torch.float64)
precision = np.float32 if options.fixed else np.float64

actor, actor_target, critic, critic_target = Actor(), Actor(), Critic(), Critic()
actor_target.load_state_dict(actor.state_dict())
critic_target.load_state_dict(critic.state_dict())
actor_optimizer = torch.optim.Adam(actor.parameters(), lr=1e-4)
critic_optimizer = torch.optim.Adam(critic.parameters(), lr=1e-3)
memory = np.zeros((50_000, 3 + 3 + 1 + 1), precision)

env = gym.make("Pendulum-v1")
obs = env.reset(seed=options.seed)[0].astype(precision)
watch = Stopwatch()
for step in range(options.steps):
    with torch.no_grad():
        act = actor(torch.from_numpy(obs[None]))[0].numpy()
    act = np.clip(act + 0.2 * rng.normal(size=1), -2, 2).astype(precision)
    obs_next, reward, _, truncated, _ = env.step(act)
    obs_next = obs_next.astype(precision)
    memory[step, :3], memory[step, 3:6], memory[step, 6], memory[step, 7] = (
        obs,
        obs_next,
        act[0],
        reward,
    )
    obs = env.reset()[0].astype(precision) if truncated else obs_next
    if step < 256:
        continue
    batch = torch.from_numpy(memory[rng.integers(0, step, 256)])
    b_obs, b_next, b_act, b_reward = batch.split([3, 3, 1, 1], dim=1)
    with torch.no_grad():
        target = 0.1 * b_reward + 0.99 * critic_target(b_next, actor_target(b_next))
    critic_loss = F.mse_loss(critic(b_obs, b_act), target)
    critic_optimizer.zero_grad()
    critic_loss.backward()
    critic_optimizer.step()
    actor_loss = -critic(b_obs, actor(b_obs)).mean()
    actor_optimizer.zero_grad()
    actor_loss.backward()
    actor_optimizer.step()
    follow(critic_target, critic)
    follow(actor_target, actor)
watch.report(options.steps)
