"""Stable-Baselines3's PPO with two worker processes, on an environment that takes 0.5 ms a step."""

import argparse
import time

import gymnasium as gym
import numpy as np
import torch
from stable_baselines3 import PPO
from stable_baselines3.common.env_util import make_vec_env
from stable_baselines3.common.vec_env import SubprocVecEnv


class Channel(gym.Env):
    """Steer a boat through a current that is solved on a grid at every step."""

    observation_space = gym.spaces.Box(-10, 10, (6,), np.float32)
    action_space = gym.spaces.Discrete(3)

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.flow = self.np_random.normal(size=(96, 96))
        self.at = np.array([48.0, 0.0])
        self.steps = 0
        return self._observe(), {}

    def step(self, action):
        for _ in range(6):
            self.flow = 0.25 * (
                np.roll(self.flow, 1, 0) + np.roll(self.flow, -1, 0)
                + np.roll(self.flow, 1, 1) + np.roll(self.flow, -1, 1)
            )  # fmt: skip
        self.flow += 0.02 * self.np_random.normal(size=self.flow.shape)
        drift = self.flow[int(self.at[0]), int(self.at[1]) % 96]
        self.at += (action - 1 + 4 * drift, 0.5)
        self.steps += 1
        ashore = not 4 < self.at[0] < 92
        return self._observe(), 1.0, ashore, self.steps >= 190, {}

    def _observe(self):
        row, column = int(np.clip(self.at[0], 2, 93)), int(self.at[1]) % 96
        near = self.flow[row - 2 : row + 3, column]
        return np.clip(np.append(near, self.at[0] / 48 - 1), -10, 10).astype(np.float32)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--steps", type=int, default=24_000)
    parser.add_argument("--seed", type=int, default=0)
    args = parser.parse_args()
    torch.set_num_threads(1)
    envs = make_vec_env(Channel, n_envs=2, seed=args.seed, vec_env_cls=SubprocVecEnv)
    model = PPO(
        "MlpPolicy", envs, n_steps=512, batch_size=128, n_epochs=4, seed=args.seed, device="cpu"
    )
    began = time.perf_counter()
    model.learn(args.steps)
    print(f"{model.num_timesteps} steps in {time.perf_counter() - began:.2f} s")
    envs.close()


if __name__ == "__main__":
    main()
