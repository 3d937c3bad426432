"""A hand-written DQN in torch on Gymnasium's CartPole, with optional faults.

Sixteen environments are stepped one after another, as most scripts do; one update follows every
vector step. Without a fault, only the network and the environments take time.
"""

from __future__ import annotations

import math
import random
from collections import deque
from pathlib import Path
from typing import Any

import gymnasium
import numpy as np
import torch
from torch import nn

from briskrl.core.phase import PhaseTimer

NUM_ENVS, OBS, CAPACITY, BATCH = 16, 4, 20_000, 64


class Lidar(gymnasium.Wrapper[np.ndarray, int, np.ndarray, int]):
    """Rays from the cart to the pole, traced in plain Python; the result is not used."""

    def step(self, action: int) -> tuple[np.ndarray, Any, bool, bool, dict[str, Any]]:
        obs, reward, ended, cut, info = self.env.step(action)
        info["range"] = min(self._range(ray, float(obs[2])) for ray in range(24))
        return obs, reward, ended, cut, info

    @staticmethod
    def _range(ray: int, tilt: float) -> float:
        angle, x, y = math.pi * ray / 24, 0.0, 0.0
        for mark in range(12):
            x, y = x + 0.1 * math.cos(angle), y + 0.1 * math.sin(angle)
            if abs(x - y * tilt) < 0.01:
                return 0.1 * mark
        return 1.2


class CartPoleDQN:
    """The loop.

    Args:
        folder: Not used: nothing is written.
        fault: Its one fault: push, updates, lidar, history, or none.
        ratio: Updates per transition.
    """

    num_envs, obs_size = NUM_ENVS, OBS

    def __init__(self, folder: Path, fault: str = "", ratio: float = 1 / NUM_ENVS) -> None:
        torch.manual_seed(0)
        self.timer = PhaseTimer()
        self.episodes = 0
        self._fault = fault
        self._ratio = 4.0 if fault == "updates" else ratio
        self._rng = np.random.default_rng(0)
        self._random = random.Random(0)
        wrappers = [Lidar] if fault == "lidar" else []
        self._envs = gymnasium.make_vec(
            "CartPole-v1", NUM_ENVS, vectorization_mode="sync", wrappers=wrappers
        )
        self._obs, _ = self._envs.reset(seed=0)
        self._online, self._target = _network(), _network()
        self._adam = torch.optim.Adam(self._online.parameters(), lr=1e-4)
        self._states = np.zeros((CAPACITY, OBS), np.float32)
        self._nexts = np.zeros((CAPACITY, OBS), np.float32)
        self._others = np.zeros((CAPACITY, 3), np.float32)
        self._deque: deque[tuple[torch.Tensor, ...]] = deque(maxlen=CAPACITY)
        self._stored = self._updates = 0
        self._lengths = np.zeros(NUM_ENVS, np.int64)
        self._seen: list[dict[str, float]] = []

    def iterate(self) -> None:
        """Act, step, store, update, count."""
        with self.timer["act"]:
            actions = self._act()
        with self.timer["env"]:
            after, reward, ended, cut, _ = self._envs.step(actions)
        with self.timer["store"]:
            store = self._push_each if self._fault == "push" else self._push_all
            store(actions, reward, ended, after)
        self._obs = after
        while self._updates < int(self._ratio * self._stored):
            with self.timer["sample"]:
                batch = self._from_deque() if self._fault == "push" else self._from_arrays()
            with self.timer["update"]:
                self._update(*batch)
            self._updates += 1
        with self.timer["log"]:
            self._count(ended | cut)

    def close(self) -> None:
        """Close the environments."""
        self._envs.close()

    def _act(self) -> np.ndarray:
        with torch.no_grad():
            greedy = self._online(torch.from_numpy(self._obs)).argmax(1).numpy()
        explore = self._rng.random(NUM_ENVS) < 0.5
        return np.where(explore, self._rng.integers(0, 2, NUM_ENVS), greedy)

    def _push_all(
        self, actions: np.ndarray, reward: np.ndarray, ended: np.ndarray, after: np.ndarray
    ) -> None:
        rows = (self._stored + np.arange(NUM_ENVS)) % CAPACITY
        self._states[rows], self._nexts[rows] = self._obs, after
        self._others[rows] = np.column_stack([actions, reward, ended])
        self._stored += NUM_ENVS

    def _push_each(
        self, actions: np.ndarray, reward: np.ndarray, ended: np.ndarray, after: np.ndarray
    ) -> None:
        for i in range(NUM_ENVS):
            state = torch.tensor(self._obs[i], dtype=torch.float32)
            following = torch.tensor(after[i], dtype=torch.float32)
            others = [torch.tensor(x[i], dtype=torch.float32) for x in (actions, reward, ended)]
            self._deque.append((state, torch.stack(others), following))
            self._stored += 1

    def _from_arrays(self) -> tuple[torch.Tensor, ...]:
        rows = self._rng.integers(0, min(CAPACITY, self._stored), BATCH)
        arrays = (self._states, self._others, self._nexts)
        return tuple(torch.from_numpy(array[rows]) for array in arrays)

    def _from_deque(self) -> tuple[torch.Tensor, ...]:
        chosen = self._random.choices(self._deque, k=BATCH)
        return tuple(torch.stack(part) for part in zip(*chosen, strict=True))

    def _update(self, states: torch.Tensor, others: torch.Tensor, nexts: torch.Tensor) -> None:
        with torch.no_grad():
            next_value = self._target(nexts).max(1).values
            target = others[:, 1] + 0.99 * (1 - others[:, 2]) * next_value
        value = self._online(states).gather(1, others[:, :1].long()).squeeze(1)
        loss = nn.functional.smooth_l1_loss(value, target)
        self._adam.zero_grad()
        loss.backward()
        self._adam.step()
        if self._updates % 500 == 0:
            self._target.load_state_dict(self._online.state_dict())

    def _count(self, over: np.ndarray) -> None:
        self._lengths += 1
        self.episodes += int(over.sum())
        for length in self._lengths[over]:
            self._seen.append({"length": float(length), "at": float(self._stored)})
        self._lengths[over] = 0
        if self._fault == "history":
            for key in ("length", "at"):
                sum(seen[key] for seen in self._seen)
                max((seen[key] for seen in self._seen), default=0.0)
                sorted(seen[key] for seen in self._seen)[-100:]
        else:
            del self._seen[:-100]


def _network() -> nn.Sequential:
    return nn.Sequential(
        nn.Linear(OBS, 128), nn.ReLU(), nn.Linear(128, 128), nn.ReLU(), nn.Linear(128, 2)
    )
