"""Stable-Baselines3's PPO on Acrobot with a callback that counts episodes."""

import argparse
import time

import torch
from stable_baselines3 import PPO
from stable_baselines3.common.callbacks import BaseCallback
from stable_baselines3.common.env_util import make_vec_env


class EpisodeCounter(BaseCallback):
    episodes = 0

    def _on_step(self) -> bool:
        self.episodes += int(self.locals["dones"].sum())
        return True


def train(steps: int, seed: int) -> None:
    torch.set_num_threads(1)
    env = make_vec_env("Acrobot-v1", n_envs=8, seed=seed)
    model = PPO("MlpPolicy", env, n_steps=128, batch_size=128, n_epochs=8, seed=seed, device="cpu")
    counter = EpisodeCounter()
    start = time.perf_counter()
    model.learn(steps, callback=counter)
    seconds = time.perf_counter() - start
    print(f"{counter.episodes} episodes")
    print(f"{model.num_timesteps} steps in {seconds:.2f} s")


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--steps", type=int, default=50_000)
    parser.add_argument("--seed", type=int, default=0)
    train(**vars(parser.parse_args()))
