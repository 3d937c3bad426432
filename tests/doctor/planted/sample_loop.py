"""A hand-written vectorized DQN in NumPy and torch, with optional faults.

Without a fault nothing in it is worth changing. Each fault is common in real loops.
"""

from __future__ import annotations

import os
import sys
from pathlib import Path
from time import thread_time

import numpy as np
import torch
from torch import nn

from briskrl.core.phase import PhaseTimer

OBS, ACTIONS, CAPACITY, BATCH = 16, 4, 8192, 64


class Games:
    """N random walks that end at random; all in NumPy."""

    def __init__(self, num_envs: int) -> None:
        self._rng = np.random.default_rng(0)
        self._drift = self._rng.normal(size=(ACTIONS, OBS)).astype(np.float32)
        self.obs = np.zeros((num_envs, OBS), np.float32)

    def step(self, actions: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Next observations, rewards, and which games ended."""
        after = 0.9 * self.obs + 0.1 * self._drift[actions]
        reward = after[:, 0].copy()
        ended = self._rng.random(len(actions)) < 0.05
        after[ended] = 0
        self.obs = after
        return after, reward, ended


class SampleLoop:
    """The loop; `fault` names its one fault, if any."""

    obs_size = OBS

    def __init__(self, folder: Path, fault: str = "", num_envs: int = 64, width: int = 64) -> None:
        torch.manual_seed(0)
        self.timer = PhaseTimer()
        self.num_envs = num_envs
        self.episodes = 0
        self._fault = fault
        self._games = Games(num_envs)
        layers = [nn.Linear(OBS, width), nn.ReLU(), nn.Linear(width, width), nn.ReLU()]
        self._net = nn.Sequential(*layers, nn.Linear(width, ACTIONS))
        self._adam = torch.optim.Adam(self._net.parameters(), lr=1e-4)
        self._states = np.zeros((CAPACITY, OBS), np.float32)
        self._next = np.zeros((CAPACITY, OBS), np.float32)
        self._actions = np.zeros(CAPACITY, np.int64)
        self._rewards = np.zeros(CAPACITY, np.float32)
        self._at = 0
        self._rng = np.random.default_rng(1)
        self._iterations = 0
        self._kept: list[np.ndarray] = []
        self._history: list[float] = []
        self._file = (folder / f"{fault or 'clean'}.log").open("w")
        # Far below the smallest normal number, as Adam's moments of dead units are.
        self._moments = np.full(200_000, 1e-41, np.float32)
        self._scratch = np.empty_like(self._moments)

    def iterate(self) -> None:
        """Act, step, store, update twice, log."""
        self._iterations += 1
        if self._fault == "cold-start" and self._iterations <= 40:
            _spin(0.05)
        with self.timer["act"]:
            before = self._games.obs
            with torch.no_grad():
                actions = self._net(torch.from_numpy(before)).argmax(1)
        with self.timer["env"]:
            after, reward, ended = self._games.step(actions.numpy())
        with self.timer["store"]:
            store = self._store_each if self._fault == "store" else self._store_all
            store(before, actions, reward, after)
        for _ in range(2):
            with self.timer["sample"]:
                rows = self._rng.integers(0, min(CAPACITY, max(1, self._at)), BATCH)
            with self.timer["update"]:
                self._update(rows)
        with self.timer["log"]:
            self._log(ended, reward)
        if self._fault == "leak":
            self._kept.append(np.ones(12_000))

    def close(self) -> None:
        """Close the log."""
        self._file.close()

    def _store_all(
        self, before: np.ndarray, actions: torch.Tensor, reward: np.ndarray, after: np.ndarray
    ) -> None:
        rows = (self._at + np.arange(self.num_envs)) % CAPACITY
        self._states[rows] = before
        self._actions[rows] = actions.numpy()
        self._rewards[rows] = reward
        self._next[rows] = after
        self._at += self.num_envs

    def _store_each(
        self, before: np.ndarray, actions: torch.Tensor, reward: np.ndarray, after: np.ndarray
    ) -> None:
        states, nexts = torch.from_numpy(before), torch.from_numpy(after)
        rewards = torch.from_numpy(reward)
        for i in range(self.num_envs):
            row = self._at % CAPACITY
            self._states[row] = states[i].cpu().numpy()
            self._actions[row] = actions[i].item()
            self._rewards[row] = rewards[i].item()
            self._next[row] = nexts[i].cpu().numpy()
            self._at += 1

    def _update(self, rows: np.ndarray) -> None:
        states, nexts = torch.from_numpy(self._states[rows]), torch.from_numpy(self._next[rows])
        with torch.no_grad():
            target = torch.from_numpy(self._rewards[rows]) + 0.9 * self._net(nexts).max(1).values
        chosen = torch.from_numpy(self._actions[rows]).unsqueeze(1)
        loss = nn.functional.mse_loss(self._net(states).gather(1, chosen).squeeze(1), target)
        self._adam.zero_grad()
        loss.backward()
        self._adam.step()
        if self._fault == "denormals":
            for _ in range(40):
                np.divide(self._moments, 3.0, out=self._scratch)

    def _log(self, ended: np.ndarray, reward: np.ndarray) -> None:
        count = int(ended.sum())
        self.episodes += count
        if self._fault == "print":
            for line in range(4 * self.num_envs):
                sys.stdout.write(f"step {self._iterations} line {line} reward {reward[0]:.3f}\n")
                sys.stdout.flush()
        if self._fault == "flush":
            for _ in range(count):
                self._file.write(f"{self.episodes}\n")
                self._file.flush()
                os.fsync(self._file.fileno())
        if self._fault == "growth":
            self._history += reward.tolist() * 16
            np.mean(self._history)


def _spin(seconds: float) -> None:
    end = thread_time() + seconds
    while thread_time() < end:
        pass
