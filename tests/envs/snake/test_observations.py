"""Observations: features, reachable space, planes, frames and mirrors."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from briskrl.core.types import StepBuffers
from briskrl.envs.snake.env import SnakeVecEnv
from tests.envs.snake.lockstep import Lockstep, Pilot, Single, as_floats, body
from tests.envs.snake.reference import MOVES, Cell, Game, Rules, hamiltonian_cycle, step_from
from tests.envs.snake.reference_observations import component, obs_shape, observe

GRIDS: list[dict[str, Any]] = [
    {"grid_dtype": dtype, "grid_frame": frame, "grid_center": center, "grid_reachable": reachable}
    for dtype in ("float32", "uint8")
    for frame in ("board", "ego")
    for center in ("board", "head")
    for reachable in (False, True)
]
MODES: list[dict[str, Any]] = [
    {"obs": "features"},
    {"obs": "flood"},
    {"obs": "extended"},
    *({"obs": "grid", **grid} for grid in GRIDS),
]


def label(mode: dict[str, Any]) -> str:
    return "-".join(str(value) for value in mode.values())


def spiral(height: int, width: int) -> list[Cell]:
    """A wall that winds inwards and leaves a corridor one cell wide beside it."""
    cells, direction = [(0, 0)], 1
    taken = {(0, 0)}

    def open_ahead(way: int) -> bool:
        one = step_from(cells[-1], way)
        two = step_from(one, way)
        inside = 0 <= one[0] < height and 0 <= one[1] < width
        return inside and one not in taken and two not in taken

    while True:
        if not open_ahead(direction):
            direction = (direction + 1) % 4
            if not open_ahead(direction):
                return cells
        cells.append(step_from(cells[-1], direction))
        taken.add(cells[-1])


SPIRALS = [(6, 6), (12, 12), (20, 20), (8, 13), (30, 9), (64, 64)]


@pytest.mark.parametrize("tail_rule", ["vacates", "solid"])
@pytest.mark.parametrize(("height", "width"), SPIRALS)
def test_observations_of_spirals_are_exact(height: int, width: int, tail_rule: str) -> None:
    """The longest corridors, with the head inside and outside, whole and cut short."""
    wall = spiral(height, width)
    assert len(wall) > 0.4 * height * width
    for obs in ({"obs": "extended"}, {"obs": "grid", "grid_reachable": True}):
        single = Single(height=height, width=width, tail_rule=tail_rule, **obs)
        for cells in (wall, wall[::-1], wall[: len(wall) // 2], wall[::-1][: len(wall) // 2]):
            free = [cell for cell in np.ndindex(height, width) if cell not in set(cells)]
            single.put(cells, free[len(free) // 2])
            expected = observe(single.game.seen_as(grid_dtype=single.obs.dtype.name))
            np.testing.assert_array_equal(single.obs, expected)


def test_flood_agrees_within_a_region() -> None:
    """Safe moves into one region see the same space, unless one enters the tail."""
    pilot = Pilot(64, 21, {"height": 8, "width": 8, "start": "cycle", "start_fill": (0.2, 0.8)})
    compared = cut = 0
    for t in range(200):
        if t % 10 == 0:
            for i in range(64):
                game = twin_of(pilot, i)
                pairs, cuts = check_regions(game, pilot.out.obs[i])
                compared += pairs
                cut += cuts
        pilot.follow(pilot.choose())
    assert compared > 200
    assert cut > 20


def twin_of(pilot: Pilot, i: int) -> Game:
    """A plain game in the position of row i."""
    game = Game(Rules(height=8, width=8))
    state = pilot.env.peek()
    game.body = [divmod(int(cell), 8) for cell in pilot.env.body(i)]
    game.occupied = set(game.body)
    game.heading = int(state["heading"][i])
    game.food = divmod(int(state["food"][i]), 8)
    return game


def check_regions(game: Game, obs: np.ndarray) -> tuple[int, int]:
    """How many pairs of safe moves shared a region, and how many were cut apart."""
    danger, flood = obs[:3], obs[11:14]
    np.testing.assert_array_equal(flood == 0, danger == 1)
    assert ((flood > 0) & (flood <= 1))[danger == 0].all()
    free = set(game.free_cells())
    moves = [step_from(game.body[0], (game.heading + turn) % 4) for turn in (0, 1, -1)]
    safe = [a for a in range(3) if danger[a] == 0 and moves[a] != game.body[-1]]
    pairs = cuts = 0
    for a in safe:
        region = component(game, moves[a], free)
        assert flood[a] == np.float32(len(region)) / np.float32(len(free))
        for b in safe:
            if b > a and moves[b] in region:
                assert flood[a] == flood[b]
                pairs += 1
            elif b > a:
                cuts += 1
    return pairs, cuts


@pytest.mark.parametrize(("height", "width"), [(4, 4), (9, 12), (20, 20)])
def test_every_safe_move_on_an_uncut_board_reaches_all(height: int, width: int) -> None:
    env = SnakeVecEnv(64, height=height, width=width, obs="flood", start="random")
    out = StepBuffers.allocate(env.env_spec, 64)
    env.start(0, out)
    middle = [i for i in range(64) if is_uncut(env.body(i), height, width)]
    assert len(middle) > 32
    danger, flood = out.obs[middle, :3], out.obs[middle, 11:]
    np.testing.assert_array_equal(flood, 1 - danger)


def is_uncut(cells: np.ndarray, height: int, width: int) -> bool:
    game = Game(Rules(height=height, width=width))
    game.body = [divmod(int(cell), width) for cell in cells]
    game.occupied = set(game.body)
    free = game.free_cells()
    return len(component(game, free[0], set(free))) == len(free)


def test_the_tail_as_a_move_adds_itself_to_the_free_cells() -> None:
    """The tail's own region, counted with the tail."""
    single = Single(height=4, width=4, obs="flood")
    single.put(body((0, 0), "DRU"), (3, 3))
    assert single.obs[:3].tolist() == [1, 0, 1]
    assert single.obs[11:].tolist() == [0, 1, 0]
    single.put(body((1, 1), "LUR"), (3, 3))
    assert single.obs[:3].tolist() == [0, 0, 0]
    assert single.obs[11:].tolist() == [1, 1, 1]
    # . t H .      The tail shuts the corner off: moving onto it reaches two of then nine cells,
    # o o o .      moving right seven of eight.
    # o o o .
    # . . . .
    single.put(body((0, 2), "DDLLURU"), (3, 3))
    assert single.obs[:3].tolist() == [1, 0, 0]
    np.testing.assert_array_equal(single.obs[11:], as_floats([0, 7 / 8, 2 / 9]))


def test_a_sealed_pocket_is_worth_its_cells() -> None:
    """With numbers worked out by hand."""
    single = Single(height=4, width=4, obs="flood")
    # . o t .      The head at (2, 1) came up from (3, 1). To its left lies a pocket of
    # . o o o      four cells, to its right one of one, and (0, 3) cannot be reached.
    # . H . o
    # . o o o
    cells = body((2, 1), "DRRUULL" + "UR")
    single.put(cells, (0, 0))
    free = 16 - len(cells)
    assert free == 6
    assert single.obs[:3].tolist() == [1, 0, 0]
    np.testing.assert_array_equal(single.obs[11:], as_floats([0, 1 / 6, 4 / 6]))


def test_extended_features_by_hand() -> None:
    single = Single(height=4, width=4, obs="extended")
    # . o t .
    # . o o o
    # . H . o
    # . o o o
    single.put(body((2, 1), "DRRUULL" + "UR"), (0, 0))
    obs = single.obs
    # Right of the head (2, 2) has no open neighbor; left of it (2, 0) has two.
    np.testing.assert_array_equal(obs[14:17], as_floats([0, 0, 0.5]))
    np.testing.assert_array_equal(obs[17:21], as_floats([1, 1, 0, 0]))
    # The tail's neighbors are body and (0, 3), which is out of reach.
    assert obs[21] == 0
    np.testing.assert_array_equal(obs[22:], as_floats([3 / 6, 10 / 16]))
    single.put(body((1, 1), "LUR"), (3, 3))
    assert single.obs[21] == 1


def test_features_by_hand() -> None:
    single = Single(height=5, width=5)
    single.put(body((0, 3), "LL"), (4, 3))
    assert single.obs.tolist() == [0, 0, 1, 0, 1, 0, 0, 0, 0, 1, 0]
    single.put(body((4, 0), "RR"), (0, 4))
    assert single.obs.tolist() == [1, 0, 1, 0, 0, 0, 1, 1, 1, 0, 0]


@pytest.mark.parametrize("mode", MODES, ids=label)
@pytest.mark.parametrize("mirror", [False, True], ids=["plain", "mirror"])
def test_every_observation_mode_equals_the_reference(mode: dict[str, Any], mirror: bool) -> None:
    rules = {"height": 7, "width": 7, "start": "random", "mirror": mirror, **mode}
    pair = Lockstep(6, seed=31, **rules)
    assert pair.out.obs.shape[1:] == obs_shape(pair.games[0])
    assert pair.env.env_spec.obs.shape == obs_shape(pair.games[0])
    pilot = Pilot(6, 31, rules)
    for t in range(150):
        actions = pilot.choose()
        pilot.follow(actions)
        pair.step(actions, look=t % 3 == 0)
    pair.close()


def test_the_default_planes_are_float32() -> None:
    """Grid_dtype is float32 unless asked otherwise."""
    assert SnakeVecEnv(1, obs="grid").env_spec.obs.dtype == np.float32


def test_body_order_counts_down_from_the_head() -> None:
    cells = body((2, 2), "LLDRR")
    floats = Single(height=5, width=5, obs="grid", grid_dtype="float32").put(cells, (0, 0)).obs
    ints = Single(height=5, width=5, obs="grid", grid_dtype="uint8").put(cells, (0, 0)).obs
    for i, cell in enumerate(cells):
        assert floats[(4, *cell)] == np.float32(6 - i) / np.float32(6)
        assert ints[(4, *cell)] == 255 * (6 - i) // 6
    assert np.count_nonzero(floats[4]) == np.count_nonzero(ints[4]) == 6
    assert floats[0].sum() == floats[2].sum() == floats[3].sum() == 1
    assert floats[1].sum() == 5
    assert ints[(3, 0, 0)] == 255


@pytest.mark.parametrize("center", ["board", "head"])
def test_ego_planes_head_up(center: str) -> None:
    """The neck is below the head for every heading."""
    pilot = Pilot(16, 3, {"start": "random"})
    env = SnakeVecEnv(
        16, obs="grid", grid_frame="ego", grid_center=center, start="random", grid_dtype="uint8"
    )
    out = StepBuffers.allocate(env.env_spec, 16)
    env.start(3, out)
    for _ in range(60):
        for planes in out.obs:
            row, col = np.argwhere(planes[0])[0]
            assert planes[1, row + 1, col] == 255
            if center == "head":
                assert (row, col) == (9, 9)
        actions = pilot.choose()
        pilot.follow(actions)
        env.step_into(actions, out)


def test_mirrored_games_are_the_same_games() -> None:
    """Flipped rows show the mirror image and take mirrored actions; about half are flipped."""
    rules = {"height": 6, "width": 8, "obs": "grid", "mirror": True}
    pair = Lockstep(200, seed=77, **rules)
    flipped = sum(game.flipped for game in pair.games)
    assert 60 < flipped < 140
    rows = [i for i, game in enumerate(pair.games) if game.flipped]
    for i in rows[:20]:
        heads = np.argwhere(pair.out.obs[i, 0])
        assert heads.tolist() == [[3, 8 - 1 - 4]]
    before = pair.env.peek()["heading"]
    pair.env.step_into(np.ones(200, np.int64), pair.out)
    after = pair.env.peek()["heading"]
    turned = [3 if game.flipped else 1 for game in pair.games]
    np.testing.assert_array_equal((after - before) % 4, turned)


@pytest.mark.parametrize(("height", "width"), [(4, 4), (9, 6), (8, 8), (12, 12), (20, 20)])
@pytest.mark.parametrize("mode", [{"obs": "extended"}, {"obs": "grid", "grid_reachable": True}])
def test_observation_from_state_equals_the_incremental_one(
    mode: dict[str, Any], height: int, width: int
) -> None:
    """No stale cache, whatever led to the position."""
    rules = {"height": height, "width": width, "start": "cycle", "masks": True, **mode}
    pilot = Pilot(96, 8, rules)
    env, fresh = SnakeVecEnv(96, **rules), SnakeVecEnv(96, **rules)
    out, again = (StepBuffers.allocate(env.env_spec, 96) for _ in range(2))
    env.start(8, out)
    for _ in range(250):
        actions = pilot.choose()
        pilot.follow(actions)
        env.step_into(actions, out)
        fresh.set_state(env.get_state())
        fresh.observe_into(again)
        np.testing.assert_array_equal(out.obs, again.obs)
        np.testing.assert_array_equal(out.mask, again.mask)


def test_a_full_board_may_still_follow_its_tail() -> None:
    """The won position: no food, and danger by the rules alone."""
    cycle = hamiltonian_cycle(4, 4)
    single = Single(height=4, width=4, obs="extended").put(cycle[:15][::-1], cycle[15])
    expected = single.game
    outcome = expected.step(0)
    assert outcome.terminated
    assert single.play(0)[1]
    np.testing.assert_array_equal(single.final_obs, observe(expected))
    assert single.final_obs[7:11].tolist() == [0, 0, 0, 0]
    assert single.final_obs[23] == 1
    assert MOVES[expected.heading] == (-1, 0)
