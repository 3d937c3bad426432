"""DQN on CartPole in one file: eight environments, a ring of arrays, one update per 16 steps."""

import argparse
import random
import time

import gymnasium as gym
import numpy as np
import torch
from gymnasium.vector import AutoresetMode
from torch import nn
from torch.nn import functional

parser = argparse.ArgumentParser()
parser.add_argument("--steps", type=int, default=120_000)
parser.add_argument("--seed", type=int, default=1)
parser.add_argument("--num-envs", type=int, default=8)
args = parser.parse_args()

BUFFER_SIZE, BATCH, GAMMA = 10_000, 128, 0.99
LEARNING_STARTS, TRAIN_EVERY, TARGET_EVERY = 1_000, 16, 500


class QNetwork(nn.Module):
    def __init__(self, obs_size: int, num_actions: int):
        super().__init__()
        self.network = nn.Sequential(
            nn.Linear(obs_size, 120),
            nn.ReLU(),
            nn.Linear(120, 84),
            nn.ReLU(),
            nn.Linear(84, num_actions),
        )

    def forward(self, x):
        return self.network(x)


def epsilon_at(step: int) -> float:
    return max(0.05, 1.0 - 0.95 * step / (0.5 * args.steps))


random.seed(args.seed)
np.random.seed(args.seed)
torch.manual_seed(args.seed)
torch.set_num_threads(1)

envs = gym.make_vec(
    "CartPole-v1",
    num_envs=args.num_envs,
    vectorization_mode="sync",
    vector_kwargs={"autoreset_mode": AutoresetMode.SAME_STEP},
)
q_network, target_network = QNetwork(4, 2), QNetwork(4, 2)
target_network.load_state_dict(q_network.state_dict())
optimizer = torch.optim.Adam(q_network.parameters(), lr=2.5e-4)

buffer_obs = np.zeros((BUFFER_SIZE, 4), np.float32)
buffer_next = np.zeros((BUFFER_SIZE, 4), np.float32)
buffer_actions = np.zeros(BUFFER_SIZE, np.int64)
buffer_rewards = np.zeros(BUFFER_SIZE, np.float32)
buffer_ends = np.zeros(BUFFER_SIZE, np.float32)
stored = updates = episodes = 0

start_time = time.time()
last_print, last_step = start_time, 0
obs, _ = envs.reset(seed=args.seed)
for step in range(0, args.steps, args.num_envs):
    if random.random() < epsilon_at(step):
        actions = np.random.randint(2, size=args.num_envs)
    else:
        with torch.no_grad():
            actions = q_network(torch.from_numpy(obs)).argmax(1).numpy()
    next_obs, rewards, terminations, truncations, infos = envs.step(actions)

    real_next = next_obs
    ended = terminations | truncations
    if ended.any():
        real_next = next_obs.copy()
        for i in np.flatnonzero(ended):
            real_next[i] = infos["final_obs"][i]
        episodes += int(ended.sum())

    at = (stored + np.arange(args.num_envs)) % BUFFER_SIZE
    buffer_obs[at], buffer_next[at] = obs, real_next
    buffer_actions[at], buffer_rewards[at], buffer_ends[at] = actions, rewards, terminations
    stored += args.num_envs
    obs = next_obs

    if stored > LEARNING_STARTS and step % TRAIN_EVERY == 0:
        chosen = np.random.randint(0, min(stored, BUFFER_SIZE), BATCH)
        with torch.no_grad():
            best = target_network(torch.from_numpy(buffer_next[chosen])).max(1).values
            td_target = torch.from_numpy(buffer_rewards[chosen]) + GAMMA * best * (
                1 - torch.from_numpy(buffer_ends[chosen])
            )
        values = q_network(torch.from_numpy(buffer_obs[chosen]))
        old_value = values.gather(1, torch.from_numpy(buffer_actions[chosen]).unsqueeze(1)).squeeze(
            1
        )
        loss = functional.mse_loss(td_target, old_value)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        updates += 1
        if updates % (TARGET_EVERY // TRAIN_EVERY) == 0:
            target_network.load_state_dict(q_network.state_dict())

    if time.time() - last_print > 2:
        now = time.time()
        print(
            f"step {step}, episodes {episodes}, SPS {(step - last_step) / (now - last_print):.0f}"
        )
        last_print, last_step = now, step

envs.close()
print(f"{args.steps} steps in {time.time() - start_time:.2f} s")
