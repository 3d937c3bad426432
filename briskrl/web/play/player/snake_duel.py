"""A game of Snake that the user plays, with the start and the food of the agent's game."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import closing
from dataclasses import dataclass, replace

import numpy as np

from briskrl.algos.base import Policy
from briskrl.core.types import JSON, Ints, StepBuffers
from briskrl.envs.snake.config import SnakeConfig
from briskrl.envs.snake.env import SnakeVecEnv
from briskrl.web.play.player.wire import RequestError

MOST_STEPS = 20_000
"""Steps of the agent's game that are searched for food."""
FoodsOf = Callable[[int], list[int]]
"""The cells of the food in the agent's game with this seed of the environment, in order."""


@dataclass(frozen=True, slots=True)
class Position:
    """A Snake game."""

    cells: Ints
    """Cells of the body, head first."""
    food: int
    heading: int
    score: int
    steps: int
    hunger: int


def position_of(env: SnakeVecEnv) -> Position:
    """The game of the first environment."""
    now = {name: int(values[0]) for name, values in env.peek().items()}
    kept = {name: now[name] for name in ("food", "heading", "score", "steps", "hunger")}
    return Position(env.body(0), **kept)


def foods_of(config: SnakeConfig, policy: Policy, seed: int) -> list[int]:
    """The cells of the food in the game of a policy, in order."""
    found: list[int] = []
    with closing(SnakeVecEnv.build(1, config, threads=1, hold_ended=True)) as env:
        buffers = StepBuffers.allocate(env.env_spec, 1)
        env.start(seed, buffers)
        env.drain_stats()
        score = -1
        for _ in range(MOST_STEPS):
            now = env.peek()
            if int(now["score"][0]) != score:
                score = int(now["score"][0])
                found.append(int(now["food"][0]))
            env.step_into(policy.act(buffers.obs, buffers.mask), buffers)
            if env.drain_stats().count:
                break
        last = env.peek()
        if int(last["score"][0]) != score:
            found.append(int(last["food"][0]))
    return found


class SnakeDuel:
    """The user's game; `prepare` comes first, then `begin`, then moves.

    Args:
        config: Settings of the agent's game.
        foods: The food of the agent's games.
    """

    def __init__(self, config: SnakeConfig, foods: FoodsOf) -> None:
        # The user steers by the keyboard, in directions of the board.
        own = replace(config, actions="absolute", mirror=False, masks=False, obs="features")
        self._env = SnakeVecEnv.build(1, own, threads=1, hold_ended=True)
        self._buffers = StepBuffers.allocate(self._env.env_spec, 1)
        self._foods_of = foods
        self._start: Position | None = None
        self._seed = 0
        self._foods: list[int] | None = None
        self._ended = True

    def prepare(self, start: Position, seed: int) -> None:
        """The agent's game has begun there, with this seed of the environment."""
        self._start, self._seed, self._foods, self._ended = start, seed, None, True

    def begin(self) -> dict[str, JSON]:
        """Begin a game like the agent's; its first state.

        Raises:
            RequestError: The agent's game has not begun.
        """
        if self._start is None:
            raise RequestError("no-game", "The agent's game has not begun.")
        if self._foods is None:
            self._foods = self._foods_of(self._seed)
        self._env.start(self._seed, self._buffers)
        self._env.drain_stats()
        self._put(self._start)
        self._ended = False
        return self._state()

    def move(self, direction: int) -> dict[str, JSON]:
        """Take one step up, right, down or left (0 to 3); backward means straight on.

        Raises:
            RequestError: The game is over or has not begun, or there is no such direction.
        """
        if self._ended:
            raise RequestError("over", "Your game is over. Begin another one.")
        if not 0 <= direction <= 3:
            raise RequestError("bad-direction", f"Directions are 0 to 3, not {direction}.")
        heading = int(self._env.peek()["heading"][0])
        if direction == (heading + 2) % 4:
            direction = heading
        score = position_of(self._env).score
        self._env.step_into(np.array([direction], np.int64), self._buffers)
        stats = self._env.drain_stats()
        self._ended = bool(stats.count)
        if not self._ended and position_of(self._env).score > score:
            self._place_food()
        won = bool(stats.won[0]) if stats.count else False
        return {**self._state(), "won": won}

    def _place_food(self) -> None:
        """Put the food where the agent's next one was, unless the snake is there."""
        now = position_of(self._env)
        assert self._foods is not None
        if now.score < len(self._foods):
            food = self._foods[now.score]
            if food >= 0 and food not in now.cells:
                self._put(replace(now, food=food))

    def _put(self, game: Position) -> None:
        self._env.set_game(
            0,
            game.cells,
            food=game.food,
            heading=game.heading,
            score=game.score,
            steps=game.steps,
            hunger=game.hunger,
        )

    def _state(self) -> dict[str, JSON]:
        now = position_of(self._env)
        return {
            "body": now.cells.tolist(),
            "food": now.food,
            "heading": now.heading,
            "score": now.score,
            "steps": now.steps,
            "over": self._ended,
        }
