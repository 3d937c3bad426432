"""DQN on a pendulum with discrete torques, whose episodes all end at their time limit of 200 steps.

The cut is stored as the end of the game, so that the last states look worthless. `--fixed` stores
only `terminated`, which changes what is learned and not the speed.
"""

import gymnasium as gym
import numpy as np
import torch
from options import Stopwatch, from_command_line
from torch import nn

TORQUES = np.linspace(-2, 2, 5, dtype=np.float32)


class Replay:
    def __init__(self, capacity):
        self.obs = np.zeros((capacity, 3), np.float32)
        self.obs_next = np.zeros((capacity, 3), np.float32)
        self.act = np.zeros(capacity, np.int64)
        self.rew = np.zeros(capacity, np.float32)
        self.done = np.zeros(capacity, np.float32)
        self.at = self.full = 0

    def add(self, obs, act, rew, obs_next, done):
        n = len(act)
        rows = np.arange(self.at, self.at + n) % len(self.act)
        self.obs[rows], self.act[rows], self.rew[rows] = obs, act, rew
        self.obs_next[rows], self.done[rows] = obs_next, done
        self.at = (self.at + n) % len(self.act)
        self.full = min(self.full + n, len(self.act))

    def sample(self, rng, size):
        rows = rng.integers(0, self.full, size)
        fields = (self.obs, self.act, self.rew, self.obs_next, self.done)
        return [torch.from_numpy(field[rows]) for field in fields]


def main():
    options = from_command_line(steps=60_000)
    torch.set_num_threads(1)
    torch.manual_seed(options.seed)
    rng = np.random.default_rng(options.seed)
    envs = gym.vector.SyncVectorEnv(
        [lambda: gym.make("Pendulum-v1")] * 8, autoreset_mode=gym.vector.AutoresetMode.SAME_STEP
    )
    net, net_target = (
        nn.Sequential(
            nn.Linear(3, 128), nn.ReLU(), nn.Linear(128, 128), nn.ReLU(), nn.Linear(128, 5)
        )
        for _ in range(2)
    )
    net_target.load_state_dict(net.state_dict())
    opt = torch.optim.Adam(net.parameters(), lr=1e-3)
    replay = Replay(20_000)
    obs, _ = envs.reset(seed=options.seed)
    watch = Stopwatch()
    for round_ in range(options.steps // 8):
        with torch.no_grad():
            act = net(torch.from_numpy(obs)).argmax(1).numpy()
        act = np.where(rng.random(8) < 0.1, rng.integers(0, 5, 8), act)
        obs_next, rew, terminated, truncated, info = envs.step(TORQUES[act][:, None])
        stored_next = obs_next
        if truncated.any():
            stored_next = np.stack(list(info["final_obs"]))
        done = terminated if options.fixed else np.logical_or(terminated, truncated)
        replay.add(obs, act, rew / 10, stored_next, done)
        obs = obs_next
        if round_ > 50:
            b_obs, b_act, b_rew, b_next, b_done = replay.sample(rng, 128)
            with torch.no_grad():
                y = b_rew + 0.98 * (1 - b_done) * net_target(b_next).max(1)[0]
            loss = nn.functional.mse_loss(net(b_obs).gather(1, b_act[:, None])[:, 0], y)
            opt.zero_grad()
            loss.backward()
            opt.step()
            if round_ % 200 == 0:
                net_target.load_state_dict(net.state_dict())
    watch.report(options.steps)


if __name__ == "__main__":
    main()
