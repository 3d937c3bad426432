"""Compiled games and their references, stepped with the same actions and compared."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from briskrl.core.types import Bools, Floats, Ints, StepBuffers
from briskrl.envs.snake.env import SnakeVecEnv
from tests.envs.snake.reference import FILLED, MOVES, TURNS, Cell, Game, Rules, direction_between
from tests.envs.snake.reference_observations import observe

STRAIGHT, TURN_RIGHT, TURN_LEFT = range(3)
STATE = ("head", "tail", "length", "food", "heading", "score", "steps", "hunger", "random_state")


def state_of(game: Game) -> tuple[int, ...]:
    """The STATE fields of a reference game."""
    width = game.rules.width
    head, tail, food = game.body[0], game.body[-1], game.food
    return (
        head[0] * width + head[1],
        tail[0] * width + tail[1],
        len(game.body),
        -1 if food is None else food[0] * width + food[1],
        game.heading,
        game.score,
        game.steps,
        game.hunger,
        game.random_state,
    )


class Pilot:
    """A safe, space-seeking player with some random moves; it observes games through its own batch.

    The batch shares seeds, rules and actions with the games it steers, so it also shows that the
    observation mode has no influence on a game.
    """

    def __init__(self, num_envs: int, seed: int, rules: dict[str, Any]) -> None:
        seen = {**rules, "obs": "extended", "masks": False}
        self.env = SnakeVecEnv(num_envs, **seen)
        self.out = StepBuffers.allocate(self.env.env_spec, num_envs)
        self.env.start(seed, self.out)
        self.absolute = rules.get("actions") == "absolute"
        self.rng = np.random.default_rng(seed)
        # A third of the games is played at random throughout.
        self.carelessness = np.where(np.arange(num_envs) % 3 == 0, 1.0, 0.01)

    def choose(self) -> Ints:
        """The next actions."""
        obs = self.out.obs
        num_envs = len(obs)
        heading = obs[:, 3:7].argmax(axis=1)
        ways = (heading[:, None] + np.array(TURNS)) % 4
        towards = np.take_along_axis(obs[:, 7:11], ways, axis=1)
        value = 10 * obs[:, 11:14] + towards + 0.1 * self.rng.random((num_envs, 3))
        best = (value - 100 * obs[:, :3]).argmax(axis=1)
        chance = self.rng.integers(3, size=num_envs)
        turns = np.where(self.rng.random(num_envs) < self.carelessness, chance, best)
        if not self.absolute:
            return turns
        reverse = (heading + 2) % 4
        wanted = np.take_along_axis(ways, turns[:, None], axis=1)[:, 0]
        return np.where(self.rng.random(num_envs) < 0.02, reverse, wanted)

    def follow(self, actions: Ints) -> StepBuffers:
        """Make the same moves in the pilot's own batch."""
        self.env.step_into(actions, self.out)
        return self.out


class Lockstep:
    """A batch of compiled games beside one reference each."""

    def __init__(self, num_envs: int, *, seed: int = 0, threads: int = 1, **rules: Any) -> None:
        self.env = SnakeVecEnv(num_envs, threads=threads, **rules)
        self.games = [Game(Rules(**rules), seed + i) for i in range(num_envs)]
        self.out = StepBuffers.allocate(self.env.env_spec, num_envs)
        self.records: list[tuple[int, int, float, float, bool, int]] = []
        self.env.start(seed, self.out)
        self.check_state()
        self.check_sight()

    def step(self, actions: Ints, *, look: bool = True) -> Bools:
        """Move everything; compares rewards, ends and states, and with `look` all observations."""
        self.env.step_into(actions, self.out)
        outcomes = [game.step(a) for game, a in zip(self.games, actions.tolist(), strict=True)]
        reward = np.array([outcome.reward for outcome in outcomes], np.float32)
        terminated = np.array([outcome.terminated for outcome in outcomes])
        truncated = np.array([outcome.truncated for outcome in outcomes])
        np.testing.assert_array_equal(self.out.terminated, terminated)
        np.testing.assert_array_equal(self.out.truncated, truncated)
        np.testing.assert_array_equal(self.out.reward, reward)
        ended = terminated | truncated
        for i in np.flatnonzero(ended).tolist():
            self._end(i, outcomes[i].cause)
        self.check_state()
        if look:
            self.check_sight()
        return ended

    def _end(self, i: int, cause: int) -> None:
        game = self.games[i]
        np.testing.assert_array_equal(self.out.final_obs[i], observe(game))
        if self.out.final_mask is not None:
            assert self.out.final_mask[i].tolist() == game.mask()
        record = (i, game.steps, game.total, float(game.score), cause == FILLED, cause)
        self.records.append(record)
        game.begin()

    def check_state(self) -> None:
        """All games equal their references."""
        expected = np.array([state_of(game) for game in self.games], object)
        found = self.env.peek()
        for column, name in enumerate(STATE):
            np.testing.assert_array_equal(found[name], expected[:, column], err_msg=name)

    def check_sight(self) -> None:
        """All observations and masks are those of the references."""
        expected = np.stack([observe(game) for game in self.games])
        assert self.out.obs.dtype == expected.dtype
        np.testing.assert_array_equal(self.out.obs, expected)
        masks = np.array([game.mask() for game in self.games])
        np.testing.assert_array_equal(self.env.action_masks(), masks)
        if self.out.mask is not None:
            np.testing.assert_array_equal(self.out.mask, masks)

    def check_bodies(self) -> None:
        """All bodies lie cell by cell as those of the references."""
        for i, game in enumerate(self.games):
            assert self.env.body(i).tolist() == cell_ids(game.body, game.rules.width)

    def check_records(self) -> None:
        """The episodes drained from the batch are those the references finished."""
        stats = self.env.drain_stats()
        assert stats.count == len(self.records)
        if not self.records:
            return
        env, steps, total, score, won, cause = zip(*self.records, strict=True)
        for found, expected in (
            (stats.env, env),
            (stats.steps, steps),
            (stats.score, score),
            (stats.won, won),
            (stats.cause, cause),
        ):
            assert found.tolist() == list(expected)
        np.testing.assert_allclose(stats.returns, total, rtol=1e-5, atol=1e-4)
        self.records.clear()

    def close(self) -> None:
        """Release the batch."""
        self.env.close()


def cell_ids(cells: list[Cell], width: int) -> list[int]:
    """Row-major numbers of cells."""
    return [row * width + col for row, col in cells]


def body(head: Cell, path: str) -> list[Cell]:
    """Cells of a body from its head backwards; the path is spelled in U, R, D and L."""
    cells = [head]
    for letter in path:
        row, col = MOVES["URDL".index(letter)]
        cells.append((cells[-1][0] + row, cells[-1][1] + col))
    assert len(set(cells)) == len(cells)
    return cells


class Single:
    """One compiled game that can be put into any position, beside its reference."""

    def __init__(self, *, seed: int = 0, render_mode: str | None = None, **rules: Any) -> None:
        self.env = SnakeVecEnv(1, render_mode=render_mode, **rules)
        self.out = StepBuffers.allocate(self.env.env_spec, 1)
        self.env.start(seed, self.out)
        self.game = Game(Rules(**rules), seed)

    def put(
        self, cells: list[Cell], food: Cell | None, *, steps: int = 0, hunger: int = 0
    ) -> Single:
        """Lay the body down, heading the way its neck says; returns self."""
        game = self.game
        game.body, game.occupied, game.food = list(cells), set(cells), food
        game.heading = direction_between(cells[1], cells[0])
        game.steps, game.hunger, game.score = steps, hunger, len(cells) - game.start_length
        width = game.rules.width
        self.env.set_game(
            0,
            np.array(cell_ids(cells, width)),
            food=-1 if food is None else food[0] * width + food[1],
            heading=game.heading,
            score=game.score,
            steps=steps,
            hunger=hunger,
        )
        self.env.observe_into(self.out)
        return self

    @property
    def obs(self) -> NDArray[Any]:
        """What the compiled game shows."""
        return self.out.obs[0]

    def play(self, action: int) -> tuple[float, bool, bool]:
        """One move of the compiled game alone: reward, terminated, truncated."""
        self.env.step_into(np.array([action]), self.out)
        out = self.out
        return float(out.reward[0]), bool(out.terminated[0]), bool(out.truncated[0])

    @property
    def final_obs(self) -> NDArray[Any]:
        """The last observation of the game that just ended."""
        return self.out.final_obs[0]

    def state(self) -> dict[str, int]:
        """All STATE fields."""
        return {name: int(array[0]) for name, array in self.env.peek().items()}

    def cells(self) -> list[Cell]:
        """The body of the compiled game."""
        width = self.game.rules.width
        return [(int(cell) // width, int(cell) % width) for cell in self.env.body(0)]


def as_floats(values: list[float]) -> Floats:
    """Python numbers as the float32 array a reward or an observation is compared with."""
    return np.array(values, np.float32)
