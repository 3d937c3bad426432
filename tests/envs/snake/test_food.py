"""Food, randomness and filled boards."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from briskrl.core.types import StepBuffers
from briskrl.envs.snake.env import SnakeVecEnv
from tests.envs.snake.lockstep import STRAIGHT, TURNS, Single, body
from tests.envs.snake.reference import (
    FILLED,
    GAMMA,
    WORD,
    Cell,
    Game,
    Rules,
    direction_between,
    finalize,
    hamiltonian_cycle,
    seeded,
)

pytestmark = pytest.mark.filterwarnings("ignore:hunger_limit:UserWarning")


def test_the_generator_is_splitmix64() -> None:
    """The published first numbers of seed 0 and of seed 1234567."""
    assert finalize(GAMMA) == 0xE220A8397B1DCDAF
    assert finalize(2 * GAMMA & WORD) == 0x6E789E6AA1B965F4
    assert finalize(1234567 + GAMMA) == 6457827717110365317


@pytest.mark.parametrize("seed", [0, 1, 2**31, 2**63 - 5, 2**64 - 1])
def test_a_seed_decides_the_random_state(seed: int) -> None:
    """A game is seeded with its 64 bits; the first food takes the first draw."""
    env = SnakeVecEnv(1)
    env.reset(seed=[seed])
    assert int(env.peek()["random_state"][0]) == (seeded(seed) + GAMMA) & WORD
    assert Game(Rules(), seed).random_state == (seeded(seed) + GAMMA) & WORD


def assert_uniform(counts: np.ndarray) -> None:
    """A chi-square test at about five standard deviations, to both sides."""
    expected = counts.sum() / len(counts)
    statistic = float(((counts - expected) ** 2 / expected).sum())
    freedom = len(counts) - 1
    assert abs(statistic - freedom) < 5 * np.sqrt(2 * freedom)


@pytest.mark.parametrize(("height", "width"), [(4, 4), (10, 10), (7, 12)])
def test_food_is_uniform_over_free_cells(height: int, width: int) -> None:
    """Over neighboring seeds and over the course of one stream."""
    num_envs = 20_000
    env = SnakeVecEnv(num_envs, height=height, width=width)
    out = StepBuffers.allocate(env.env_spec, num_envs)
    cells = height * width
    counts = np.zeros(cells, np.int64)
    for seed in (0, 10**9):
        env.start(seed, out)
        counts += np.bincount(env.peek()["food"].astype(int), minlength=cells)
    covered = env.body(0).astype(int)
    assert (counts[covered] == 0).all()
    assert_uniform(np.delete(counts, covered))
    single = SnakeVecEnv(8, height=height, width=width)
    counts[:] = 0
    single.reset(seed=5)
    for _ in range(2500):
        single.reset()
        counts += np.bincount(single.peek()["food"].astype(int), minlength=cells)
    assert_uniform(np.delete(counts, covered))


def test_random_starts_are_uniform() -> None:
    """Headings, and heads among the cells that leave room for the body."""
    num_envs = 40_000
    env = SnakeVecEnv(num_envs, height=5, width=7, start="random")
    env.start(0, StepBuffers.allocate(env.env_spec, num_envs))
    state = env.peek()
    assert_uniform(np.bincount(state["heading"].astype(int), minlength=4))
    for heading, room in enumerate([3 * 7, 5 * 5, 3 * 7, 5 * 5]):
        heads = state["head"][state["heading"] == heading].astype(int)
        counts = np.bincount(heads, minlength=35)
        assert (counts > 0).sum() == room
        assert_uniform(counts[counts > 0])


def test_food_never_falls_on_the_body() -> None:
    """On crowded boards."""
    env = SnakeVecEnv(64, height=4, width=6, start="cycle", start_fill=(0.6, 1.0))
    out = StepBuffers.allocate(env.env_spec, 64)
    for seed in range(0, 6400, 64):
        env.start(seed, out)
        food = env.peek()["food"]
        for i in range(64):
            assert food[i] not in env.body(i)


@pytest.mark.parametrize(("height", "width"), [(4, 4), (5, 6), (8, 8)])
def test_the_only_free_cell_gets_the_food(height: int, width: int) -> None:
    """Wherever it is, whatever the random state."""
    cycle = hamiltonian_cycle(height, width)
    for offset in range(len(cycle)):
        turned = cycle[offset:] + cycle[:offset]
        single = Single(seed=offset, height=height, width=width)
        single.put(turned[:-2][::-1], turned[-2])
        action = action_towards(turned[-4], turned[-3], turned[-2])
        assert single.play(action)[1] is False
        last = turned[-1]
        assert single.state()["food"] == last[0] * width + last[1]


def action_towards(neck: Cell, head: Cell, target: Cell) -> int:
    turn = (direction_between(head, target) - direction_between(neck, head)) % 4
    return [turn_ % 4 for turn_ in TURNS].index(turn)


def cycle_action(cells: list[Cell], following: dict[Cell, Cell]) -> int:
    """The relative action that follows the cycle; a turn where the cycle leads back."""
    neck, head = cells[1], cells[0]
    if following[head] == neck:
        return 2
    return action_towards(neck, head, following[head])


@pytest.mark.parametrize(
    ("height", "width", "start"),
    [(4, 4, "center"), (6, 6, "center"), (5, 4, "cycle"), (8, 7, "cycle"), (10, 10, "cycle")],
)
def test_following_the_cycle_fills_the_board(height: int, width: int, start: str) -> None:
    """Every food is eaten, the hunger limit is never met, the win is recorded."""
    rules: dict[str, Any] = {
        "height": height,
        "width": width,
        "start": start,
        "start_fill": (0.0, 0.25),
        "obs": "grid",
        "reward_win": 50.0,
    }
    single = Single(seed=1, **rules)
    cycle = hamiltonian_cycle(height, width)
    following = {cell: cycle[(i + 1) % len(cycle)] for i, cell in enumerate(cycle)}
    start_length = single.state()["length"]
    moves = 0
    terminated = False
    while not terminated:
        before = single.state()
        reward, terminated, truncated = single.play(cycle_action(single.cells(), following))
        moves += 1
        assert not truncated
    assert before["length"] == height * width - 1
    assert reward == 60.0
    stats = single.env.drain_stats()
    assert stats.cause.tolist() == [FILLED]
    assert stats.won.tolist() == [True]
    assert stats.score.tolist() == [height * width - start_length]
    assert stats.steps.tolist() == [moves]
    final = single.final_obs
    assert not final[3].any()
    assert ((final[0] > 0) | (final[1] > 0)).all()


def test_a_full_board_draws_no_food() -> None:
    """The winning move draws nothing; the next game draws once."""
    single = won_board(height=4, width=4)
    before = single.state()["random_state"]
    assert single.play(STRAIGHT) == (10, True, False)
    assert single.state()["random_state"] == (before + GAMMA) & WORD


def won_board(**rules: Any) -> Single:
    cycle = hamiltonian_cycle(4, 4)
    return Single(**rules).put(cycle[:15][::-1], cycle[15])


def test_each_end_is_followed_by_one_draw() -> None:
    """Death, starvation and the step limit; a meal and a plain move beside them."""
    short = body((2, 2), "LL")
    positions: list[tuple[str, list[Cell], Cell, dict[str, int], int]] = [
        ("death", body((2, 5), "LL"), (0, 0), {}, 1),
        ("starved", short, (0, 0), {"hunger": 19}, 1),
        ("step limit", short, (0, 0), {"steps": 49}, 1),
        ("step limit on a meal", short, (2, 3), {"steps": 49}, 2),
        ("meal", short, (2, 3), {}, 1),
        ("move", short, (0, 0), {}, 0),
    ]
    for name, cells, food, counters, draws in positions:
        single = Single(height=6, width=6, hunger_limit=20, max_steps=50)
        single.put(cells, food, **counters)
        before = single.state()["random_state"]
        single.play(STRAIGHT)
        after = (before + draws * GAMMA) & WORD
        assert single.state()["random_state"] == after, name


def test_starts_draw_the_expected_numbers() -> None:
    """The other starts: heading and head; length and offset; the mix; the mirror."""
    for rules, draws in (
        ({"start": "center"}, {1}),
        ({"start": "random"}, {3}),
        ({"start": "cycle"}, {3}),
        ({"start": "cycle", "start_mix": 0.0}, {1}),
        ({"start": "cycle", "start_mix": 0.5}, {2, 4}),
        ({"start": "center", "mirror": True}, {2}),
        ({"start": "cycle", "start_mix": 0.5, "mirror": True}, {3, 5}),
    ):
        env = SnakeVecEnv(64, **rules)
        env.start(17, StepBuffers.allocate(env.env_spec, 64))
        state = env.peek()["random_state"].tolist()
        found = set()
        for i, after in enumerate(state):
            distances = [(seeded(17 + i) + k * GAMMA) & WORD for k in range(8)]
            found.add(distances.index(int(after)))
        assert found == draws, rules


@pytest.mark.parametrize(("height", "width"), [(4, 4), (6, 5), (5, 6), (7, 4)])
def test_the_fixed_cycle_visits_every_cell_once(height: int, width: int) -> None:
    """The cycle of the reference is one, and starts along the even side's first line."""
    cycle = hamiltonian_cycle(height, width)
    assert len(set(cycle)) == len(cycle) == height * width
    for here, there in zip(cycle, cycle[1:] + cycle[:1], strict=True):
        assert abs(here[0] - there[0]) + abs(here[1] - there[1]) == 1
    assert cycle[0] == (0, 0)
    assert cycle[1] == ((0, 1) if height % 2 == 0 else (1, 0))


def test_cycle_starts_have_the_configured_lengths() -> None:
    """Lengths are uniform between both bounds, and the records count score from 0."""
    env = SnakeVecEnv(20_000, height=6, width=6, start="cycle", start_fill=(0.25, 0.75))
    env.start(3, StepBuffers.allocate(env.env_spec, 20_000))
    state = env.peek()
    lengths = state["length"].astype(int)
    assert lengths.min() == 9
    assert lengths.max() == 27
    assert_uniform(np.bincount(lengths)[9:])
    assert (state["score"] == 0).all()
    assert_uniform(np.bincount(state["head"].astype(int), minlength=36))
