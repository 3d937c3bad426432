"""The rules of ordered visit against plain Python, its maps and its players."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from briskrl import ConfigError
from briskrl.core.types import StepBuffers
from briskrl.envs.ordered_visit.env import OrderedVisitEnv, OrderedVisitVecEnv
from briskrl.envs.ordered_visit.players import Nearest
from briskrl.envs.ordered_visit.workflow_task import OrderedVisitTask
from tests.envs.ordered_visit.reference import Game

SMALL: dict[str, Any] = {"side": 8, "regions": 3, "region_size": 2, "max_steps": 60}
SETTINGS: list[dict[str, Any]] = [
    SMALL,
    {"side": 9, "regions": 4, "region_size": 1, "walls": 0.3, "max_steps": 40},
    {
        "side": 6,
        "regions": 2,
        "region_size": 2,
        "walls": 0.0,
        "hidden_order": "north-west>north-east",
    },
    {"side": 30, "max_steps": 200},
    {"side": 62, "region_size": 20, "max_steps": 300},
]


def started(num_envs: int, **settings: Any) -> tuple[OrderedVisitVecEnv, StepBuffers]:
    env = OrderedVisitVecEnv(num_envs, **settings)
    out = StepBuffers.allocate(env.env_spec, num_envs)
    env.start(3, out)
    return env, out


def game_of(env: OrderedVisitVecEnv, index: int) -> Game:
    """A game on the present map of an env."""
    config, walls = env.config, env.grid(index).walls
    return Game(
        side=config.side,
        size=config.region_size,
        regions=config.regions,
        max_steps=config.max_steps,
        hidden=env.hidden_order.order,
        walls={(int(x), int(y)) for y, x in np.argwhere(walls)},
    )


@pytest.mark.parametrize("settings", SETTINGS, ids=lambda s: f"{s['side']}")
def test_episodes_equal_plain_python(settings: dict[str, Any]) -> None:
    """Half of the moves go towards a region, so that episodes end both ways."""
    env, out = started(6, **settings)
    task = OrderedVisitTask(env.config)
    task.bind(env)
    games = [game_of(env, i) for i in range(6)]
    rng, ends = np.random.default_rng(0), set()
    for _ in range(250):
        for i, game in enumerate(games):
            np.testing.assert_allclose(out.obs[i], game.observe(), atol=1e-6)
            closed = [region not in game.visited for region in range(game.regions)]
            assert task.open_mask()[i].tolist() == closed
        goals = np.array([min(set(range(g.regions)) - set(g.visited)) for g in games])
        towards = env.moves_towards(goals)
        actions = np.where(rng.random(6) < 0.5, towards, rng.integers(4, size=6))
        before = [game.visited.copy() for game in games]
        env.step_into(actions, out)
        for i, game in enumerate(games):
            reward, terminated, truncated, entered = game.step(int(actions[i]))
            assert out.reward[i] == pytest.approx(reward, abs=1e-6)
            assert (out.terminated[i], out.truncated[i]) == (terminated, truncated)
            assert task.addressed(actions)[i] == entered
            assert len(game.visited) - len(before[i]) == (entered >= 0)
            if terminated or truncated:
                np.testing.assert_allclose(out.final_obs[i], game.observe(), atol=1e-6)
                ends.add(terminated)
                games[i] = game_of(env, i)
    assert ends


@pytest.mark.parametrize("settings", SETTINGS, ids=lambda s: f"{s['side']}")
def test_every_region_can_be_visited_in_any_order(settings: dict[str, Any]) -> None:
    """The first moves of the oracle are those of shortest ways through no other region."""
    env, out = started(5, **settings)
    for target in range(env.config.regions):
        env.start(target, out)
        for i in range(5):
            game = game_of(env, i)
            distance = game.distance(target)
            assert distance is not None
            assert game.is_free(game.at)
            move = env.moves_towards(np.full(5, target))[i]
            game.step(int(move))
            assert game.distance(target) == distance - 1


def test_walls_have_the_given_density_and_differ_between_episodes() -> None:
    env, out = started(200, side=20)
    walls = np.array([env.grid(i).walls for i in range(200)])
    free = env.grid(0).regions < 0
    assert walls[:, free].mean() == pytest.approx(0.15, abs=0.01)
    assert not walls[:, ~free].any()
    assert len(np.unique(walls.reshape(200, -1), axis=0)) == 200
    env.start(4, out)
    assert (env.grid(0).walls == walls[1]).all(), "env i has the seed plus i"


def test_grids_without_a_way_are_drawn_again() -> None:
    env, _ = started(300, side=8, region_size=1, regions=4, walls=0.4)
    games = [game_of(env, i) for i in range(300)]
    assert all(game.distance(region) is not None for game in games for region in range(4))


def test_the_hidden_order_is_the_default_one_or_the_given_one() -> None:
    defaults = [OrderedVisitVecEnv(1, regions=m).hidden_order.id for m in (2, 3, 4)]
    assert defaults == [1, 3, 15]
    given = "south-west>north-west>north-east"
    assert str(OrderedVisitVecEnv(1, regions=3, hidden_order=given).hidden_order) == given


@pytest.mark.parametrize(
    ("settings", "match"),
    [
        ({"side": 8, "region_size": 4}, "do not fit"),
        ({"hidden_order": "north-west>north-east"}, "lacks"),
        ({"regions": 5}, "regions"),
        ({"side": 63}, "side"),
    ],
)
def test_impossible_settings_are_refused(settings: dict[str, Any], match: str) -> None:
    with pytest.raises(ConfigError, match=match):
        OrderedVisitVecEnv(1, **settings)


def test_the_hand_written_player_visits_more_than_chance() -> None:
    visits = {}
    for name in ("nearest", "random"):
        env, out = started(64, **SMALL)
        player, rng = Nearest(), np.random.default_rng(0)
        for _ in range(300):
            actions = player(out.obs) if name == "nearest" else rng.integers(4, size=64)
            env.step_into(actions, out)
        stats = env.drain_stats()
        visits[name] = (stats.cause == 1).sum()
    assert visits["nearest"] > 3 * visits["random"]


def test_drawings_show_walls_regions_and_the_player() -> None:
    env = OrderedVisitEnv(render_mode="ansi", **SMALL)
    env.reset(seed=1)
    lines = env.render().splitlines()
    assert lines[0] == "+--------+"
    assert lines[5][5] == "@"
    assert (lines[1][1:3], lines[1][7:9], lines[8][1:3]) == ("AA", "BB", "CC")
    assert lines[-1] == "order north-east>south-west>north-west"
    image = OrderedVisitVecEnv(1, render_mode="rgb_array", cell_px=5, **SMALL)
    image.reset(seed=1)
    assert image.render()[0].shape == (40, 40, 3)
    assert len(np.unique(image.render()[0].reshape(-1, 3), axis=0)) == 4
