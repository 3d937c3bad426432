"""The slow training loop that briskrl replaced, recreated as a reference for speed comparisons.

Training does not use it. Its typical costs are: a push per transition with two `.cpu().numpy()` and
three `.item()` calls, a flood fill with a Python queue per game and direction, `num_envs // 4`
updates after every vector step, and a print and a flushed CSV row per episode. The rest is written
in the ordinary way: the replay buffer is a ring of NumPy arrays (a deque of tuples costs the same),
the update a plain torch DQN step on the CPU. Rules and the eleven features are computed by our
compiled kernel, so that the comparison is about the loop and not about the game.
"""

from __future__ import annotations

import csv
from collections import deque
from dataclasses import dataclass
from itertools import pairwise
from typing import TextIO

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn import functional

from briskrl.algos.dqn.config import DQNConfig
from briskrl.algos.dqn.exploration import linear
from briskrl.core.types import Array, EpisodeStats, Floats, StepBuffers, iter_rows
from briskrl.envs.base import VecEnv
from briskrl.envs.snake.env import SnakeVecEnv

Cell = tuple[int, int]

MOVES = ((-1, 0), (0, 1), (1, 0), (0, -1))
"""Row and column of a step up, right, down and left."""
TURNS = (0, 1, 3)
"""Change of heading by the actions straight, right and left."""


class LegacyReplay:
    """A ring of NumPy arrays that takes one transition at a time."""

    def __init__(self, capacity: int, obs_size: int, seed: int) -> None:
        self.states = np.zeros((capacity, obs_size), np.float32)
        self.actions = np.zeros(capacity, np.int64)
        self.rewards = np.zeros(capacity, np.float32)
        self.next_states = np.zeros((capacity, obs_size), np.float32)
        self.dones = np.zeros(capacity, np.float32)
        self.capacity = capacity
        self.position = 0
        self.size = 0
        self._rng = np.random.default_rng(seed)

    def push(
        self, state: Array, action: float, reward: float, next_state: Array, done: float
    ) -> None:
        """Append one transition."""
        at = self.position
        self.states[at] = state
        self.actions[at] = action
        self.rewards[at] = reward
        self.next_states[at] = next_state
        self.dones[at] = done
        self.position = (at + 1) % self.capacity
        self.size = min(self.size + 1, self.capacity)

    def sample(self, batch_size: int) -> tuple[Tensor, Tensor, Tensor, Tensor, Tensor]:
        """A random batch as tensors."""
        at = self._rng.integers(0, self.size, batch_size)
        return (
            torch.from_numpy(self.states[at]),
            torch.from_numpy(self.actions[at]),
            torch.from_numpy(self.rewards[at]),
            torch.from_numpy(self.next_states[at]),
            torch.from_numpy(self.dones[at]),
        )


@dataclass(frozen=True, slots=True)
class Transitions:
    """One vector step as tensors, (N, ...) each."""

    states: Tensor
    actions: Tensor
    rewards: Tensor
    next_states: Tensor
    dones: Tensor


def push_one_by_one(replay: LegacyReplay, step: Transitions) -> None:
    """Store N transitions one by one, converting every field by itself."""
    for i in range(len(step.actions)):
        replay.push(
            step.states[i].cpu().numpy(),
            step.actions[i].item(),
            step.rewards[i].item(),
            step.next_states[i].cpu().numpy(),
            step.dones[i].item(),
        )


@dataclass(frozen=True, slots=True)
class LegacyGame:
    """State of one game for a flood fill."""

    body: list[Cell]
    """Head first."""
    occupied: set[Cell]
    heading: int


def games_of(env: SnakeVecEnv) -> list[LegacyGame]:
    """The games of an environment as lists and sets of cells."""
    headings = env.peek()["heading"].tolist()
    width = env.config.width
    games = []
    for i, heading in enumerate(headings):
        body = [divmod(cell, width) for cell in env.body(i).tolist()]
        games.append(LegacyGame(body, set(body), heading))
    return games


def flood_features(games: list[LegacyGame], height: int, width: int) -> Floats:
    """Reachable fraction of the free cells for straight, right and left, (N, 3).

    Equal to entries 11 to 13 of the flood observation, by one search per game and direction.
    """
    columns = [[_reachable_fraction(game, turn, height, width) for game in games] for turn in TURNS]
    return np.array(columns, np.float32).T


def _reachable_fraction(game: LegacyGame, turn: int, height: int, width: int) -> np.float32:
    row_step, col_step = MOVES[(game.heading + turn) % 4]
    start = (game.body[0][0] + row_step, game.body[0][1] + col_step)
    on_board = 0 <= start[0] < height and 0 <= start[1] < width
    onto_tail = start == game.body[-1]
    if not on_board or (start in game.occupied and not onto_tail):
        return np.float32(0)
    visited = {start}
    queue = deque([start])
    while queue:
        row, col = queue.popleft()
        for row_step, col_step in MOVES:
            cell = (row + row_step, col + col_step)
            if (
                0 <= cell[0] < height
                and 0 <= cell[1] < width
                and cell not in game.occupied
                and cell not in visited
            ):
                visited.add(cell)
                queue.append(cell)
    free = height * width - len(game.body) + onto_tail
    return np.float32(len(visited)) / np.float32(free)


class LegacyTrainer:
    """The slow loop on the same games, with the same network and batch size.

    Args:
        env: The games.
        config: Network, batch size, learning rate, target period; its ratio is ignored.
        seed: Seed of games, network and exploration.
        console: Receives a line per episode.
        table: Receives a CSV row per episode, flushed.
    """

    def __init__(
        self, env: VecEnv, config: DQNConfig, seed: int, *, console: TextIO, table: TextIO
    ) -> None:
        self.env = env
        self.config = config
        self.steps = 0
        self.updates = 0
        self.episodes = 0
        self._console = console
        self._table = table
        self._writer = csv.writer(table)
        self._generator = torch.Generator().manual_seed(seed)
        torch.manual_seed(seed)
        self._online = _network(env, config)
        self._target = _network(env, config)
        self._target.load_state_dict(self._online.state_dict())
        self._optimizer = torch.optim.Adam(self._online.parameters(), lr=config.lr)
        self.replay = LegacyReplay(config.buffer_size, env.env_spec.obs.size, seed)
        self._out = StepBuffers.allocate(env.env_spec, env.num_envs)
        env.start(seed, self._out)
        self._states = torch.from_numpy(self._out.obs.copy())

    def collect(self) -> None:
        """Collect one transition per game, push them one by one, and log ended episodes."""
        step = self.step(self.select_actions())
        push_one_by_one(self.replay, step)
        self.log(self.env.drain_stats())

    def step(self, actions: Tensor) -> Transitions:
        """Step all games; returns the transitions."""
        self.env.step_into(actions.numpy(), self._out)
        step = self._transitions(actions)
        self._states = torch.from_numpy(self._out.obs.copy())
        self.steps += self.env.num_envs
        return step

    def iterate(self) -> None:
        """Collect, then do the fixed number of updates."""
        self.collect()
        for _ in range(max(1, self.env.num_envs // 4)):
            self.train_step()

    def train_step(self) -> float:
        """One DQN update; returns the loss."""
        config = self.config
        states, actions, rewards, next_states, dones = self.replay.sample(config.batch_size)
        with torch.no_grad():
            best = self._target(next_states).max(1).values
            targets = rewards + config.gamma * best * (1 - dones)
        values = self._online(states).gather(1, actions.unsqueeze(1)).squeeze(1)
        loss = functional.smooth_l1_loss(values, targets)
        self._optimizer.zero_grad()
        loss.backward()  # type: ignore[no-untyped-call]
        nn.utils.clip_grad_norm_(self._online.parameters(), config.max_grad_norm)
        self._optimizer.step()
        self.updates += 1
        if self.updates % config.target_every == 0:
            self._target.load_state_dict(self._online.state_dict())
        return loss.item()

    def select_actions(self) -> Tensor:
        """Greedy or random actions (N,)."""
        with torch.no_grad():
            greedy: Tensor = self._online(self._states).argmax(1)
        explore = torch.rand(len(greedy), generator=self._generator) < self._epsilon()
        random = torch.randint(3, greedy.shape, generator=self._generator)
        return torch.where(explore, random, greedy)

    def _epsilon(self) -> float:
        config = self.config
        return linear(config.epsilon_start, config.epsilon_end, config.epsilon_steps, self.steps)

    def _transitions(self, actions: Tensor) -> Transitions:
        out = self._out
        dones = torch.from_numpy(out.terminated | out.truncated)
        ended = torch.from_numpy(out.final_obs)
        going = torch.from_numpy(out.obs)
        return Transitions(
            states=self._states,
            actions=actions,
            rewards=torch.from_numpy(out.reward.copy()),
            next_states=torch.where(dones.unsqueeze(1), ended, going),
            dones=dones,
        )

    def log(self, ended: EpisodeStats) -> None:
        """Write a line and a row per ended episode, each flushed."""
        for _, steps, returns, score, _, _ in iter_rows(ended):
            self.episodes += 1
            self._console.write(
                f"Episode {self.episodes}: score {score:.0f}, steps {steps}, reward {returns:.2f}\n"
            )
            self._console.flush()
            self._writer.writerow([self.episodes, steps, returns, score])
            self._table.flush()


def _network(env: VecEnv, config: DQNConfig) -> nn.Sequential:
    widths = [env.env_spec.obs.size, *config.net]
    layers: list[nn.Module] = []
    for inner, outer in pairwise(widths):
        layers += [nn.Linear(inner, outer), nn.ReLU()]
    return nn.Sequential(*layers, nn.Linear(widths[-1], 3))
