"""Compiled games equal the reference, step by step, over more than a million moves."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pytest

from tests.envs.snake.lockstep import TURN_RIGHT, Lockstep, Pilot, Single, body

pytestmark = pytest.mark.filterwarnings("ignore:hunger_limit:UserWarning")

DISTINCT = {
    "reward_death": -3.25,
    "reward_food": 5.5,
    "reward_win": 40.0,
    "reward_step": -0.125,
    "reward_starved": -1.75,
    "shaping": 0.5,
}


@dataclass(frozen=True)
class Run:
    """A batch to play; observations are compared on every `look`-th step and at every end."""

    label: str
    num_envs: int
    num_steps: int
    look: int
    rules: dict[str, Any] = field(default_factory=dict)
    threads: int = 1


def board(height: int, width: int, **rules: Any) -> dict[str, Any]:
    return {"height": height, "width": width, **rules}


RUNS = [
    Run("features-4x4", 60, 1200, 4, board(4, 4, **DISTINCT)),
    Run("features-10x10", 60, 1200, 4, board(10, 10)),
    Run("features-solid", 60, 1000, 4, board(6, 6, tail_rule="solid", masks=True)),
    Run("features-limits", 60, 1000, 4, board(7, 5, hunger_limit=9, max_steps=31, **DISTINCT)),
    Run("absolute", 60, 1000, 8, board(9, 12, actions="absolute", obs="flood", masks=True)),
    Run("absolute-cycle", 60, 900, 16, board(6, 8, actions="absolute", start="cycle", **DISTINCT)),
    Run("flood-10x10", 60, 1000, 24, board(10, 10, obs="flood")),
    Run("flood-cycle", 60, 900, 24, board(8, 8, obs="flood", start="cycle", tail_rule="solid")),
    Run("flood-random", 60, 1000, 24, board(11, 4, obs="flood", start="random")),
    Run("extended", 60, 900, 24, board(12, 12, obs="extended")),
    Run("extended-cycle", 60, 800, 24, board(7, 10, obs="extended", start="cycle", masks=True)),
    Run("extended-mirror", 60, 900, 24, board(8, 5, obs="extended", mirror=True, masks=True)),
    Run(
        "extended-20x20", 30, 1000, 60, board(20, 20, obs="extended", start="cycle", start_mix=0.5)
    ),
    Run("grid", 60, 800, 16, board(5, 9, obs="grid", grid_dtype="float32")),
    Run("grid-bytes", 60, 800, 16, board(10, 10, obs="grid", grid_dtype="uint8", start="cycle")),
    Run(
        "grid-reachable",
        60,
        800,
        24,
        board(6, 6, obs="grid", grid_dtype="uint8", grid_reachable=True, start="cycle"),
    ),
    Run(
        "grid-ego",
        60,
        800,
        16,
        board(7, 7, obs="grid", grid_dtype="float32", grid_frame="ego", start="random"),
    ),
    Run(
        "grid-head",
        60,
        600,
        16,
        board(4, 7, obs="grid", grid_dtype="float32", grid_center="head", start="cycle"),
    ),
    Run(
        "grid-ego-head-mirror",
        60,
        600,
        24,
        board(
            6,
            6,
            obs="grid",
            grid_dtype="uint8",
            grid_center="head",
            grid_frame="ego",
            grid_reachable=True,
            mirror=True,
            start="cycle",
            start_mix=0.25,
            start_fill=(0.1, 1.0),
        ),
    ),
    Run("two-threads", 1400, 60, 59, board(8, 8, start="cycle", **DISTINCT), threads=2),
]


def test_the_runs_add_up_to_a_million_steps() -> None:
    assert sum(run.num_envs * run.num_steps for run in RUNS) >= 1_000_000


@pytest.mark.parametrize("run", RUNS, ids=[run.label for run in RUNS])
def test_kernel_equals_reference(run: Run) -> None:
    """A random and a careful player, every rule and observation mode."""
    seed = 1000 + sum(map(ord, run.label))
    pair = Lockstep(run.num_envs, seed=seed, threads=run.threads, **run.rules)
    pilot = Pilot(run.num_envs, seed, run.rules)
    longest = num_ends = 0
    for t in range(run.num_steps):
        actions = pilot.choose()
        seen = pilot.follow(actions)
        ended = pair.step(actions, look=t % run.look == 0)
        np.testing.assert_array_equal(seen.reward, pair.out.reward)
        num_ends += int(ended.sum())
        if t % 50 == 49:
            pair.check_records()
            pair.check_bodies()
            longest = max(longest, *(len(game.body) for game in pair.games))
    pair.check_records()
    assert num_ends > run.num_envs
    assert longest > min(8, pair.games[0].rules.cells // 3)
    pair.close()


def random_rules(rng: np.random.Generator) -> dict[str, Any]:
    """Any rules that can be played, on a board of 4x4 to 12x12."""
    height, width = (int(side) for side in rng.integers(4, 13, size=2))
    if rng.random() < 0.3:
        width = height
    absolute = bool(rng.random() < 0.3)
    starts = ["center", "random"] if height % 2 and width % 2 else ["center", "random", "cycle"]
    frames = ["board", "ego"] if height == width else ["board"]
    fill = np.sort(rng.random(2))
    cells = height * width
    names = ("death", "food", "win", "step", "starved")
    return {
        "height": height,
        "width": width,
        "obs": str(rng.choice(["features", "flood", "extended", "grid", "grid"])),
        "actions": "absolute" if absolute else "relative",
        "mirror": not absolute and bool(rng.random() < 0.5),
        "start": str(rng.choice(starts)),
        "start_fill": (float(fill[0]) * 0.9, max(float(fill[1]), 4 / cells)),
        "start_mix": float(rng.choice([0.0, 1.0, rng.random()])),
        "tail_rule": str(rng.choice(["vacates", "solid"])),
        "hunger_limit": int(rng.choice([0, 7, cells, 2 * cells])),
        "max_steps": int(rng.choice([0, 0, 5, 60])),
        "shaping": float(rng.normal()),
        **{f"reward_{name}": float(rng.normal()) for name in names},
        "grid_dtype": str(rng.choice(["float32", "uint8"])),
        "grid_frame": str(rng.choice(frames)),
        "grid_center": str(rng.choice(["board", "head"])),
        "grid_reachable": bool(rng.random() < 0.5),
        "masks": bool(rng.random() < 0.5),
    }


def check_random_rules(seed: int, num_steps: int, look: int) -> None:
    rng = np.random.default_rng(seed)
    rules = random_rules(rng)
    pair = Lockstep(9, seed=seed * 1000, **rules)
    pilot = Pilot(9, seed * 1000, rules)
    for t in range(num_steps):
        actions = pilot.choose()
        pilot.follow(actions)
        pair.step(actions, look=t % look == 0)
        if t % 50 == 49:
            pair.check_records()
            pair.check_bodies()
    pair.close()


@pytest.mark.parametrize("seed", range(40))
def test_kernel_equals_reference_under_random_rules(seed: int) -> None:
    """Combinations that nobody thought of."""
    check_random_rules(seed, num_steps=100, look=5)


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(1000, 1200))
def test_kernel_equals_reference_under_many_random_rules(seed: int) -> None:
    """A soak."""
    check_random_rules(seed, num_steps=600, look=4)


BOARDS = [(4, 4), (5, 5), (7, 4), (4, 11), (12, 12), (20, 20)]


@pytest.mark.parametrize(("height", "width"), BOARDS)
@pytest.mark.parametrize("start", ["center", "random", "cycle"])
def test_invariants_hold_after_every_step(height: int, width: int, start: str) -> None:
    """On the compiled games alone."""
    if start == "cycle" and height % 2 and width % 2:
        pytest.skip("an odd board has no cycle")
    rules = board(height, width, start=start)
    pilot = Pilot(12, 3, rules)
    base = np.full(12, 3)
    for _ in range(150):
        if start == "cycle":
            now = pilot.env.peek()
            base = now["length"] - now["score"]
        ended = np.zeros(12, bool)
        out = pilot.follow(pilot.choose())
        ended |= out.terminated | out.truncated
        state = pilot.env.peek()
        for i in range(12):
            check_invariants(pilot.env.body(i), state, i, height, width)
        length = state["length"] - state["score"]
        np.testing.assert_array_equal(length[~ended], base[~ended])


def check_invariants(
    cells: np.ndarray, state: dict[str, np.ndarray], i: int, height: int, width: int
) -> None:
    assert 3 <= len(cells) <= height * width
    assert len(cells) == state["length"][i]
    assert len(set(cells.tolist())) == len(cells)
    assert cells.min() >= 0
    assert cells.max() < height * width
    rows, cols = np.divmod(cells.astype(int), width)
    jumps = np.abs(np.diff(rows)) + np.abs(np.diff(cols))
    assert (jumps == 1).all()
    assert 0 <= state["food"][i] < height * width
    assert state["food"][i] not in cells
    move = (rows[0] - rows[1], cols[0] - cols[1])
    assert [(-1, 0), (0, 1), (1, 0), (0, -1)][state["heading"][i]] == move
    assert cells[0] == state["head"][i]
    assert cells[-1] == state["tail"][i]


@pytest.mark.parametrize("length", [3, 4])
def test_a_game_survives_more_moves_than_its_ring_has_cells(length: int) -> None:
    """Many more moves than the body could ever have cells, then normal play."""
    rules = board(4, 4, obs="extended", hunger_limit=0)
    single = Single(seed=5, **rules)
    single.put(body((1, 1), "LDR"[: length - 1]), (3, 3))
    for _ in range(1000):
        assert single.play(TURN_RIGHT)[1:] == (False, False)
    assert single.state()["steps"] == 1000
    assert single.cells() == body((1, 1), "LDR"[: length - 1])
    for _ in range(3):
        assert single.play(0 if single.obs[0] == 0 else TURN_RIGHT)[1] is False
    pair = Lockstep(8, seed=2, **rules)
    pilot = Pilot(8, 2, rules)
    for t in range(400):
        turning = np.full(8, TURN_RIGHT)
        actions = turning if t % 200 < 150 else pilot.choose()
        pilot.follow(actions)
        pair.step(actions)
    pair.check_bodies()


# Cells, and cells with a guard column, on both sides of 64, 128, 192 and 256; the longest rows.
WORD_EDGES = [
    (7, 9),
    (8, 8),
    (5, 13),
    (8, 7),
    (9, 7),
    (9, 6),
    (9, 14),
    (8, 16),
    (16, 7),
    (10, 13),
    (12, 16),
    (16, 11),
    (15, 17),
    (16, 16),
    (16, 15),
    (4, 63),
    (4, 64),
    (64, 4),
    (63, 4),
    (5, 64),
]


@pytest.mark.parametrize(("height", "width"), WORD_EDGES)
def test_boards_at_machine_word_edges(height: int, width: int) -> None:
    start = "random" if height % 2 and width % 2 else "cycle"
    rules = board(height, width, obs="extended", start=start, start_fill=(0.05, 1.0))
    pair = Lockstep(6, seed=height * 100 + width, **rules)
    pilot = Pilot(6, height * 100 + width, rules)
    for t in range(80):
        actions = pilot.choose()
        pilot.follow(actions)
        pair.step(actions, look=t % 8 == 0)
    pair.check_bodies()


def test_the_largest_board() -> None:
    """64 by 64."""
    rules = board(64, 64, obs="extended", start="cycle", start_fill=(0.5, 0.6))
    pair = Lockstep(2, seed=9, **rules)
    pilot = Pilot(2, 9, rules)
    for t in range(40):
        actions = pilot.choose()
        pilot.follow(actions)
        pair.step(actions, look=t % 20 == 0)
    pair.check_bodies()
