"""The rules of a move: tails, dangers, reversals, limits, rewards, collisions and causes."""

from __future__ import annotations

from itertools import product
from typing import Any

import numpy as np
import pytest

from briskrl.core.types import StepBuffers
from briskrl.envs.snake.env import SnakeVecEnv
from tests.envs.snake.lockstep import STRAIGHT, TURN_LEFT, TURN_RIGHT, Pilot, Single, body
from tests.envs.snake.reference import (
    BODY,
    DOWN,
    FILLED,
    LEFT,
    RIGHT,
    STARVED,
    STEP_LIMIT,
    TRAPPED,
    UP,
    WALL,
    hamiltonian_cycle,
)

pytestmark = pytest.mark.filterwarnings("ignore:hunger_limit:UserWarning")

REWARDS: dict[str, Any] = {
    "reward_death": -7.0,
    "reward_food": 3.0,
    "reward_win": 100.0,
    "reward_step": -0.25,
    "reward_starved": -2.0,
    "shaping": 0.5,
}


def cause(single: Single) -> int:
    stats = single.env.drain_stats()
    assert stats.count == 1
    return int(stats.cause[0])


def test_a_snake_of_four_circles_forever_when_the_tail_vacates() -> None:
    single = Single(height=6, width=6, hunger_limit=0)
    single.put(body((2, 3), "LDR"), (0, 0))
    for _ in range(400):
        assert single.obs[:3].tolist() == [0, 0, 0]
        assert single.play(TURN_RIGHT) == (pytest.approx(-0.01), False, False)
    assert single.cells() == body((2, 3), "LDR")


def test_the_same_circle_is_fatal_when_the_tail_is_solid() -> None:
    single = Single(height=6, width=6, tail_rule="solid")
    single.put(body((2, 3), "LDR"), (0, 0))
    assert single.obs[:3].tolist() == [0, 1, 0]
    assert single.play(TURN_RIGHT) == (-10, True, False)
    assert cause(single) == BODY


def test_a_longer_snake_hits_itself_in_that_circle() -> None:
    """Only the tail itself vacates."""
    single = Single(height=6, width=6)
    single.put(body((2, 3), "LDRR"), (0, 0))
    assert single.obs[:3].tolist() == [0, 1, 0]
    assert single.play(TURN_RIGHT)[1]


@pytest.mark.parametrize("tail_rule", ["vacates", "solid"])
@pytest.mark.parametrize(("height", "width"), [(4, 4), (6, 9), (10, 10), (20, 20)])
def test_danger_is_exactly_what_ends_the_game(tail_rule: str, height: int, width: int) -> None:
    """From each position try all three moves."""
    num_envs = 48
    board = {"height": height, "width": width}
    rules = {**board, "tail_rule": tail_rule, "start": "cycle", "obs": "extended"}
    pilot = Pilot(num_envs, 11, rules)
    env = SnakeVecEnv(num_envs, **rules)
    out = StepBuffers.allocate(env.env_spec, num_envs)
    env.start(0, out)
    seen = set()
    for _ in range(60):
        state = pilot.env.get_state()
        dangers = pilot.out.obs[:, :3]
        masks = pilot.env.action_masks()
        for action in range(3):
            env.set_state(state)
            env.step_into(np.full(num_envs, action), out)
            stats = env.drain_stats()
            collided = np.zeros(num_envs)
            collided[stats.env[np.isin(stats.cause, [WALL, BODY, TRAPPED])]] = 1
            np.testing.assert_array_equal(dangers[:, action], collided)
            np.testing.assert_array_equal(masks[:, action], collided == 0)
            seen |= set(stats.cause.tolist())
        pilot.follow(pilot.choose())
    assert {BODY, WALL} <= seen


def test_reversing_equals_going_straight() -> None:
    absolute = {"height": 7, "width": 7, "actions": "absolute", "obs": "grid"}
    for heading, path in enumerate(["DD", "LL", "UU", "RR"]):
        ahead, back = (Single(**absolute).put(body((3, 3), path), (0, 0)) for _ in range(2))
        assert ahead.play(heading) == back.play((heading + 2) % 4)
        assert ahead.state() == back.state()
        assert ahead.cells() == back.cells()
        np.testing.assert_array_equal(ahead.obs, back.obs)


@pytest.mark.parametrize("tail_rule", ["vacates", "solid"])
def test_relative_and_absolute_games_with_matching_moves_are_identical(tail_rule: str) -> None:
    rules = {"height": 8, "width": 6, "tail_rule": tail_rule, "start": "random"}
    relative = Pilot(32, 4, rules)
    absolute = SnakeVecEnv(32, obs="extended", actions="absolute", **rules)
    out = StepBuffers.allocate(absolute.env_spec, 32)
    absolute.start(4, out)
    reversals = 0
    for t in range(300):
        np.testing.assert_array_equal(relative.out.obs, out.obs)
        heading = relative.env.peek()["heading"].astype(int)
        actions = relative.choose()
        wanted = (heading + np.array([0, 1, -1])[actions]) % 4
        if t % 5 == 0:
            straight = actions == 0
            wanted[straight] = (heading[straight] + 2) % 4
            reversals += int(straight.sum())
        check_absolute_masks(relative.env.action_masks(), absolute.action_masks(), heading)
        relative.follow(actions)
        absolute.step_into(wanted, out)
        for name in ("reward", "terminated", "truncated"):
            np.testing.assert_array_equal(getattr(relative.out, name), getattr(out, name))
    assert reversals > 100


def check_absolute_masks(relative: np.ndarray, absolute: np.ndarray, heading: np.ndarray) -> None:
    rows = np.arange(len(heading))
    for action, turn in enumerate((0, 1, 3)):
        np.testing.assert_array_equal(absolute[rows, (heading + turn) % 4], relative[:, action])
    np.testing.assert_array_equal(absolute[rows, (heading + 2) % 4], relative[:, 0])


def test_hunger_truncates_on_exactly_its_last_move() -> None:
    """From the start of a game and from a meal."""
    single = Single(height=6, width=6, hunger_limit=13)
    single.put(body((2, 2), "LL"), (5, 5))
    for _ in range(12):
        assert single.play(TURN_RIGHT)[1:] == (False, False)
    assert single.play(TURN_RIGHT)[1:] == (False, True)
    assert cause(single) == STARVED
    single.put(body((2, 2), "LL"), (2, 3), hunger=5, steps=5)
    assert single.play(STRAIGHT)[1:] == (False, False)
    assert single.state()["hunger"] == 0
    single.put(single.cells(), (5, 5), steps=6)
    for _ in range(12):
        assert single.play(TURN_RIGHT)[1:] == (False, False)
    assert single.play(TURN_RIGHT)[1:] == (False, True)


def test_eating_on_the_last_move_prevents_starvation() -> None:
    single = Single(height=6, width=6, hunger_limit=13)
    single.put(body((2, 2), "LL"), (2, 3), hunger=12, steps=12)
    assert single.play(STRAIGHT) == (10, False, False)
    assert single.state()["hunger"] == 0


def test_dying_on_the_last_move_is_termination_only() -> None:
    single = Single(height=6, width=6, hunger_limit=13, max_steps=13)
    single.put(body((0, 5), "LL"), (3, 3), hunger=12, steps=12)
    assert single.play(STRAIGHT) == (-10, True, False)
    assert cause(single) == WALL


def test_winning_on_the_last_move_is_termination_only() -> None:
    single = Single(height=4, width=4, hunger_limit=40, max_steps=50)
    cycle = hamiltonian_cycle(4, 4)
    single.put(cycle[:15][::-1], cycle[15], hunger=39, steps=49)
    assert single.play(STRAIGHT) == (10, True, False)
    assert cause(single) == FILLED


def test_the_step_limit_truncates_even_on_a_meal() -> None:
    single = Single(height=6, width=6, max_steps=20)
    single.put(body((2, 2), "LL"), (5, 5), steps=18)
    assert single.play(STRAIGHT)[1:] == (False, False)
    assert single.play(STRAIGHT)[1:] == (False, True)
    assert cause(single) == STEP_LIMIT
    single.put(body((2, 2), "LL"), (2, 3), steps=19)
    assert single.play(STRAIGHT) == (10, False, True)
    assert cause(single) == STEP_LIMIT


def test_limits_of_zero_are_off() -> None:
    single = Single(height=4, width=4, hunger_limit=0, max_steps=0)
    single.put(body((1, 1), "LU"), (3, 3))
    for _ in range(500):
        assert single.play(TURN_RIGHT)[1:] == (False, False)


def test_the_default_hunger_limit_is_twice_the_board() -> None:
    single = Single(height=4, width=6)
    single.put(body((1, 1), "LU"), (3, 3), hunger=46)
    assert single.play(TURN_RIGHT)[1:] == (False, False)
    assert single.play(TURN_RIGHT)[1:] == (False, True)


@pytest.mark.parametrize(
    ("food", "action", "reward"),
    [
        ((0, 2), STRAIGHT, -0.25 + 0.5),
        ((5, 2), STRAIGHT, -0.25 - 0.5),
        ((3, 5), STRAIGHT, -0.25 - 0.5),
        ((3, 5), TURN_RIGHT, -0.25 + 0.5),
        ((3, 5), TURN_LEFT, -0.25 - 0.5),
        ((2, 2), STRAIGHT, 3.0),
        ((3, 3), TURN_RIGHT, 3.0),
    ],
)
def test_reward_of_a_move(food: tuple[int, int], action: int, reward: float) -> None:
    """Shaping has the right sign, and is absent when eating."""
    single = Single(height=6, width=6, **REWARDS)
    single.put(body((3, 2), "DD"), food)
    assert single.play(action) == (reward, False, False)


def test_reward_of_an_end() -> None:
    """Death, starvation, the step limit and a win."""
    single = Single(height=4, width=4, hunger_limit=40, max_steps=60, **REWARDS)
    single.put(body((0, 2), "DD"), (3, 3), hunger=39)
    assert single.play(STRAIGHT) == (-7.0, True, False)
    single.put(body((1, 2), "DD"), (0, 0), hunger=39)
    assert single.play(STRAIGHT) == (-0.25 + 0.5 - 2.0, False, True)
    single.put(body((1, 2), "DD"), (0, 0), steps=59)
    assert single.play(STRAIGHT) == (-0.25 + 0.5, False, True)
    cycle = hamiltonian_cycle(4, 4)
    single.put(cycle[:15][::-1], cycle[15])
    assert single.play(STRAIGHT) == (103.0, True, False)


def test_the_return_is_the_sum_of_rewards() -> None:
    single = Single(height=6, width=6, **REWARDS)
    single.env.start(3, single.out)
    total, ended = 0.0, False
    while not ended:
        reward, terminated, truncated = single.play(STRAIGHT)
        total += reward
        ended = terminated or truncated
    assert single.env.drain_stats().returns.tolist() == [total]


@pytest.mark.parametrize("action", [STRAIGHT, TURN_RIGHT, TURN_LEFT])
def test_a_collision_leaves_everything_but_the_heading(action: int) -> None:
    """Seen in the last observation of the ended game."""
    cells = body((0, 5), {STRAIGHT: "DDL", TURN_RIGHT: "DDL", TURN_LEFT: "DLUL"}[action])
    heading = {STRAIGHT: UP, TURN_RIGHT: RIGHT, TURN_LEFT: LEFT}[action]
    features = Single(height=6, width=6).put(cells, (4, 1))
    assert features.play(action)[1]
    assert features.final_obs[0] == 1
    assert features.final_obs[3:7].tolist() == [float(heading == way) for way in range(4)]
    assert features.final_obs[7:].tolist() == [0, 0, 1, 1]
    grid = Single(height=6, width=6, obs="grid").put(cells, (4, 1))
    before = grid.obs.copy()
    grid.play(action)
    np.testing.assert_array_equal(grid.final_obs, before)
    stats = grid.env.drain_stats()
    assert stats.score.tolist() == [len(cells) - 3]


def test_causes_of_death() -> None:
    """Trapped only when every move was fatal before the move."""
    single = Single(height=6, width=6)
    dead_end = body((0, 0), "DRURR")
    for action in range(3):
        single.put(dead_end, (5, 5))
        assert single.obs[:3].tolist() == [1, 1, 1]
        assert single.play(action)[1]
        assert cause(single) == TRAPPED
    corner = body((0, 0), "DRUR")[:-1]
    for action, expected in ((STRAIGHT, WALL), (TURN_LEFT, WALL)):
        single.put(corner, (5, 5))
        assert single.obs[:3].tolist() == [1, 0, 1]
        single.play(action)
        assert cause(single) == expected
    single.put(body((2, 3), "LDRR"), (0, 0))
    single.play(TURN_RIGHT)
    assert cause(single) == BODY


def test_a_solid_tail_can_trap() -> None:
    corner = body((0, 0), "DRU")
    for tail_rule, fatal in (("vacates", 0), ("solid", 1)):
        single = Single(height=6, width=6, tail_rule=tail_rule).put(corner, (5, 5))
        assert single.obs[:3].tolist() == [1, fatal, 1]
    single.play(STRAIGHT)
    assert cause(single) == TRAPPED


def test_headings_and_turns() -> None:
    """Right of up is right, and so on round the clock; left the other way."""
    ways = {UP: "DD", RIGHT: "LL", DOWN: "UU", LEFT: "RR"}
    for heading, (action, turn) in product(ways, [(0, 0), (1, 1), (2, -1)]):
        single = Single(height=7, width=7).put(body((3, 3), ways[heading]), (0, 0))
        single.play(action)
        assert single.state()["heading"] == (heading + turn) % 4
        row, col = [(-1, 0), (0, 1), (1, 0), (0, -1)][(heading + turn) % 4]
        assert single.cells()[0] == (3 + row, 3 + col)


@pytest.mark.parametrize(("height", "width"), [(4, 4), (5, 9), (10, 10)])
def test_the_center_start(height: int, width: int) -> None:
    single = Single(height=height, width=width)
    row, col = height // 2, width // 2
    assert single.cells() == [(row, col), (row, col - 1), (row, col - 2)]
    state = single.state()
    assert [state[name] for name in ("heading", "score", "steps", "hunger")] == [RIGHT, 0, 0, 0]
