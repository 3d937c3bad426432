"""A hand-written actor-critic over a vector environment in NumPy, with optional faults.

One iteration is a rollout of 16 steps in 32 environments and one update on all of it. Every cell of
the map has learned features, a table with a hand-written Adam.
"""

from __future__ import annotations

import json
import logging
import os
from collections import deque
from pathlib import Path

import numba
import numpy as np
import torch
from torch import nn

from briskrl.core.phase import PhaseTimer

NUM_ENVS, STEPS, SIDE, FLOORS, OBS, ACTIONS, GAMMA = 32, 16, 32, 8, 34, 4, 0.97
RECENT = 100
STUCK = 5e-43
"""A denormal float32 that stays constant when multiplied by 0.9 repeatedly, due to rounding."""


class Rooms:
    """N walkers that search the center of a floor; a walk ends there or at random.

    There are eight floors of 32 x 32 cells; only the lowest is used.
    """

    num_places = FLOORS * SIDE * SIDE

    def __init__(self) -> None:
        self._rng = np.random.default_rng(0)
        self.at = self._rng.integers(0, SIDE, (NUM_ENVS, 2))

    def places(self) -> np.ndarray:
        """Cell indices, (N,)."""
        return self.at[:, 0] * SIDE + self.at[:, 1]

    def step(self, actions: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Rewards and which walks ended."""
        moves = np.array([[0, 1], [0, -1], [1, 0], [-1, 0]])
        self.at = np.clip(self.at + moves[actions], 0, SIDE - 1)
        away = np.abs(self.at - SIDE // 2).sum(1)
        ended = (away == 0) | (self._rng.random(NUM_ENVS) < 1 / 64)
        self.at[ended] = self._rng.integers(0, SIDE, (int(ended.sum()), 2))
        return (1.0 - away / SIDE).astype(np.float32), ended


class HandAdam:
    """A hand-written Adam for one tensor."""

    def __init__(self, weights: torch.Tensor, moment: float) -> None:
        self._weights = weights
        self._first = torch.full_like(weights, moment)
        self._second = torch.full_like(weights, moment)

    def step(self) -> None:
        """Apply one update."""
        gradient = self._weights.grad
        assert gradient is not None
        self._first.mul_(0.9).add_(gradient, alpha=0.1)
        self._second.mul_(0.999).addcmul_(gradient, gradient, value=0.001)
        self._weights.data.sub_(3e-4 * self._first / (self._second.sqrt() + 1e-8))
        gradient.zero_()


class NumpyA2C:
    """The loop; `fault` names its one fault.

    Faults: results (rewritten and synced per episode), lines (one logged per environment and step),
    graphs (never freed), compile (kernels at their first call), moments (denormal), or none.
    """

    num_envs, obs_size = NUM_ENVS * STEPS, OBS

    def __init__(self, folder: Path, fault: str = "", width: int = 64) -> None:
        torch.manual_seed(0)
        self.timer = PhaseTimer()
        self.episodes = 0
        self._fault = fault
        self._rooms = Rooms()
        self._rng = np.random.default_rng(1)
        self._table = nn.Embedding(Rooms.num_places, OBS - 2)
        layers = [nn.Linear(OBS, width), nn.Tanh(), nn.Linear(width, width), nn.Tanh()]
        self._net = nn.Sequential(*layers, nn.Linear(width, ACTIONS + 1))
        self._adam = torch.optim.Adam(self._net.parameters(), lr=3e-4)
        self._table_adam = HandAdam(self._table.weight, STUCK if fault == "moments" else 0.0)
        self._kernels = [numba.njit(kernel) for kernel in (_returns, _smooth, _quantiles)]
        if fault != "compile":
            self._run_kernels(np.zeros((STEPS, NUM_ENVS), np.float32), np.zeros(NUM_ENVS))
        self._recent: deque[float] = deque(maxlen=RECENT)
        self._kept: list[torch.Tensor] = []
        self._results = folder / "results.json"
        self._logger = logging.Logger("a2c")
        self._logger.addHandler(logging.StreamHandler())

    def iterate(self) -> None:
        """A rollout, what it was worth, and an update."""
        places = np.zeros((STEPS, NUM_ENVS), np.int64)
        spots = np.zeros((STEPS, NUM_ENVS, 2), np.float32)
        actions = np.zeros((STEPS, NUM_ENVS), np.int64)
        rewards = np.zeros((STEPS, NUM_ENVS), np.float32)
        for t in range(STEPS):
            with self.timer["act"]:
                before = self._rooms.places(), self._rooms.at / np.float32(SIDE)
                chosen = self._act(*before)
            with self.timer["env"]:
                reward, ended = self._rooms.step(chosen)
            with self.timer["store"]:
                places[t], spots[t], actions[t], rewards[t] = *before, chosen, reward
            with self.timer["log"]:
                self._log(t, reward)
            with self.timer["save"]:
                self._save(reward[ended])
        with self.timer["act"]:
            last = self._value_after()
        with self.timer["update"]:
            self._update(places, spots, actions, self._run_kernels(rewards, last))

    def close(self) -> None:
        """Drop the kept graphs."""
        self._kept.clear()

    def _forward(self, places: np.ndarray, spots: np.ndarray) -> torch.Tensor:
        known = self._table(torch.from_numpy(places))
        where = torch.from_numpy(np.ascontiguousarray(spots, np.float32))
        found: torch.Tensor = self._net(torch.cat([known, where], dim=1))
        return found

    def _act(self, places: np.ndarray, spots: np.ndarray) -> np.ndarray:
        with torch.no_grad():
            logits = self._forward(places, spots)[:, :ACTIONS].numpy()
        noise = self._rng.gumbel(size=logits.shape)
        return np.asarray((logits + noise).argmax(1))

    def _value_after(self) -> np.ndarray:
        value = self._forward(self._rooms.places(), self._rooms.at / np.float32(SIDE))[:, ACTIONS]
        if self._fault == "graphs":
            self._kept.append(value.mean())
        return value.detach().numpy().astype(np.float64)

    def _run_kernels(self, rewards: np.ndarray, last: np.ndarray) -> np.ndarray:
        returns, smooth, quantiles = self._kernels
        found = returns(rewards, last, GAMMA)
        smooth(found, 0.9)
        quantiles(found)
        return np.asarray(found, np.float32)

    def _update(
        self, places: np.ndarray, spots: np.ndarray, actions: np.ndarray, returns: np.ndarray
    ) -> None:
        out = self._forward(places.reshape(-1), spots.reshape(-1, 2))
        target = torch.from_numpy(returns.reshape(-1))
        log_probs = torch.log_softmax(out[:, :ACTIONS], dim=1)
        chosen = log_probs.gather(1, torch.from_numpy(actions.reshape(-1, 1))).squeeze(1)
        value = out[:, ACTIONS]
        loss = (value - target).pow(2).mean() - (chosen * (target - value.detach())).mean()
        self._adam.zero_grad()
        loss.backward()
        self._adam.step()
        self._table_adam.step()

    def _log(self, t: int, reward: np.ndarray) -> None:
        if self._fault == "lines":
            for i in range(NUM_ENVS):
                self._logger.info("step %d env %d reward %.3f", t, i, reward[i])

    def _save(self, last_rewards: np.ndarray) -> None:
        for reward in last_rewards:
            self.episodes += 1
            self._recent.append(float(reward))
            if self._fault == "results":
                self._rewrite()

    def _rewrite(self) -> None:
        fresh = self._results.with_suffix(".new")
        with fresh.open("w") as file:
            json.dump({"episodes": self.episodes, "recent": list(self._recent)}, file)
            file.flush()
            os.fsync(file.fileno())
        fresh.replace(self._results)


def _returns(rewards: np.ndarray, last: np.ndarray, gamma: float) -> np.ndarray:
    found = np.zeros(rewards.shape, np.float64)
    after = last.copy()
    for t in range(rewards.shape[0] - 1, -1, -1):
        after = rewards[t] + gamma * after
        found[t] = after
    return found


def _smooth(returns: np.ndarray, keep: float) -> np.ndarray:
    found = np.sort(returns.copy().reshape(-1))
    spread = np.median(found) + np.std(found) + np.percentile(found, 90.0)
    for i in range(1, found.size):
        found[i] = keep * found[i - 1] + (1 - keep) * found[i] + 0.0 * spread
    return np.unique(np.round(found, 3))


def _quantiles(returns: np.ndarray) -> np.ndarray:
    flat = returns.copy().reshape(-1)
    marks = np.quantile(flat, np.linspace(0.0, 1.0, 9))
    counts = np.histogram(flat, 16)[0]
    order = np.argsort(flat)
    return np.concatenate((marks, counts.astype(np.float64), flat[order[:4]]))
