"""Replay buffers of the scripts of this folder: a ring of arrays, and a deque of tuples."""

import random
from collections import deque

import numpy as np
import torch


class ReplayBuffer:
    def __init__(self, capacity, obs_size):
        self.obs = np.zeros((capacity, obs_size), np.float32)
        self.next_obs = np.zeros((capacity, obs_size), np.float32)
        self.actions = np.zeros(capacity, np.int64)
        self.rewards = np.zeros(capacity, np.float32)
        self.dones = np.zeros(capacity, np.float32)
        self.capacity, self.position, self.size = capacity, 0, 0

    def push(self, obs, action, reward, next_obs, done):
        i = self.position
        self.obs[i] = obs
        self.actions[i] = action
        self.rewards[i] = reward
        self.next_obs[i] = next_obs
        self.dones[i] = done
        self.position = (i + 1) % self.capacity
        self.size = min(self.size + 1, self.capacity)

    def push_batch(self, obs, actions, rewards, next_obs, dones):
        at = (self.position + np.arange(len(actions))) % self.capacity
        self.obs[at], self.next_obs[at] = obs, next_obs
        self.actions[at], self.rewards[at], self.dones[at] = actions, rewards, dones
        self.position = int(at[-1] + 1) % self.capacity
        self.size = min(self.size + len(at), self.capacity)

    def sample(self, batch_size):
        at = np.random.randint(0, self.size, batch_size)
        columns = (self.obs, self.actions, self.rewards, self.next_obs, self.dones)
        return tuple(torch.from_numpy(column[at]) for column in columns)


class DequeBuffer:
    def __init__(self, capacity):
        self.memory = deque(maxlen=capacity)

    def push(self, *transition):
        self.memory.append(transition)

    def sample(self, batch_size):
        rows = random.sample(self.memory, batch_size)
        obs, actions, rewards, next_obs, dones = zip(*rows, strict=True)
        return (
            torch.tensor(np.array(obs)),
            torch.tensor(actions),
            torch.tensor(rewards, dtype=torch.float32),
            torch.tensor(np.array(next_obs)),
            torch.tensor(dones, dtype=torch.float32),
        )
