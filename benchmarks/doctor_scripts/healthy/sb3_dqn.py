"""Stable-Baselines3's DQN on CartPole."""

import argparse
import time

import torch
from stable_baselines3 import DQN
from stable_baselines3.common.env_util import make_vec_env

parser = argparse.ArgumentParser(description=__doc__)
parser.add_argument("--steps", type=int, default=40_000)
parser.add_argument("--seed", type=int, default=0)
options = parser.parse_args()

torch.set_num_threads(1)
env = make_vec_env("CartPole-v1", n_envs=4, seed=options.seed)
model = DQN(
    "MlpPolicy",
    env,
    learning_rate=2.3e-3,
    batch_size=64,
    buffer_size=50_000,
    learning_starts=1_000,
    train_freq=4,
    gradient_steps=2,
    target_update_interval=100,
    exploration_fraction=0.2,
    policy_kwargs={"net_arch": [128, 128]},
    seed=options.seed,
    device="cpu",
)
began = time.perf_counter()
model.learn(options.steps)
print(f"{options.steps} steps in {time.perf_counter() - began:.2f} s")
