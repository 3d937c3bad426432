"""Snake through Gymnasium: checkers, wrappers, infos, errors and rendering."""

from __future__ import annotations

import warnings
from typing import Any

import gymnasium
import numpy as np
import pytest
from gymnasium.utils.env_checker import check_env
from gymnasium.vector import AutoresetMode
from gymnasium.wrappers.vector import RecordEpisodeStatistics

from briskrl.envs.snake.env import SnakeEnv, SnakeVecEnv
from briskrl.training.config import TrainConfig
from briskrl.training.resolve import complete
from briskrl.training.trainer import Trainer
from tests.envs.snake.lockstep import Single, body
from tests.envs.snake.reference import FILLED, Game, Rules, hamiltonian_cycle
from tests.envs.snake.reference_observations import observe

IDS = [f"Snake-10x10-{obs}-v0" for obs in ("features", "flood", "grid")]
SETTINGS: list[dict[str, Any]] = [
    {"obs": "features"},
    {"obs": "flood", "actions": "absolute"},
    {"obs": "extended", "mirror": True},
    {"obs": "grid", "grid_dtype": "uint8", "height": 6, "width": 9},
    {"obs": "grid", "grid_dtype": "float32", "grid_center": "head", "start": "cycle"},
]


@pytest.mark.parametrize("settings", SETTINGS, ids=str)
def test_gymnasium_checker_accepts_the_single_game(settings: dict[str, Any]) -> None:
    """Not even a warning."""
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        check_env(SnakeEnv(**settings), skip_render_check=True)


@pytest.mark.parametrize("name", IDS)
@pytest.mark.parametrize("render_mode", ["ansi", "rgb_array"])
def test_gymnasium_checker_accepts_every_render_mode(name: str, render_mode: str) -> None:
    """Made by id, every render mode tried."""
    env = gymnasium.make(name, render_mode=render_mode)
    check_env(env.unwrapped)
    env.close()


@pytest.mark.parametrize("name", IDS)
def test_registered_ids_make_the_native_classes(name: str) -> None:
    env = gymnasium.make(name)
    assert isinstance(env.unwrapped, SnakeEnv)
    obs, _ = env.reset(seed=1)
    assert env.observation_space.contains(obs)
    env.close()
    vector = gymnasium.make_vec(name, num_envs=5, vectorization_mode="vector_entry_point")
    assert isinstance(vector.unwrapped, SnakeVecEnv)
    assert vector.num_envs == 5
    rows, _ = vector.reset(seed=1)
    np.testing.assert_array_equal(rows[0], obs)
    assert vector.observation_space.contains(rows)
    assert vector.single_observation_space == env.observation_space
    assert vector.action_space.contains(vector.action_space.sample())
    vector.step(vector.action_space.sample())
    vector.close()


def test_a_single_game_is_row_zero_of_a_batch() -> None:
    """Through reset and step of Gymnasium's Env, to the end of the game."""
    env, game = SnakeEnv(obs="flood", height=6, width=6), Game(Rules(6, 6, obs="flood"), 4)
    obs, info = env.reset(seed=4)
    np.testing.assert_array_equal(obs, observe(game))
    rng = np.random.default_rng(0)
    for _ in range(300):
        action = int(rng.choice(np.flatnonzero(game.mask()))) if any(game.mask()) else 0
        outcome = game.step(action)
        obs, reward, terminated, truncated, info = env.step(action)
        np.testing.assert_array_equal(obs, observe(game))
        assert reward == outcome.reward
        assert (terminated, truncated) == (outcome.terminated, outcome.truncated)
        if outcome.cause:
            assert info["score"] == game.score
            assert info["cause"] == outcome.cause
            game.begin()
            obs, info = env.reset()
            np.testing.assert_array_equal(obs, observe(game))
    env.close()


def test_episode_statistics_wrapper_counts_our_episodes() -> None:
    """Its sums are those of our own records."""
    env = RecordEpisodeStatistics(SnakeVecEnv(4, height=5, width=5))
    env.reset(seed=0)
    rng = np.random.default_rng(0)
    found = []
    for _ in range(200):
        *_, infos = env.step(rng.integers(3, size=4))
        if "episode" in infos:
            for i in np.flatnonzero(infos["_episode"]):
                found.append((i, infos["episode"]["l"][i], infos["episode"]["r"][i]))
    stats = env.unwrapped.drain_stats()
    assert stats.count == len(found) > 20
    for row, (i, length, total) in enumerate(found):
        assert stats.env[row] == i
        assert stats.steps[row] == length
        assert stats.returns[row] == pytest.approx(total, abs=1e-3)


def test_stable_baselines3_trains_on_it() -> None:
    """Stable-Baselines3 checks the class, then takes rollouts and updates."""
    checker = pytest.importorskip("stable_baselines3.common.env_checker")
    from stable_baselines3 import DQN, PPO

    checker.check_env(SnakeEnv(obs="flood"), warn=True)
    for algorithm, settings in (
        (PPO, {"n_steps": 64, "batch_size": 32, "n_epochs": 1}),
        (DQN, {"learning_starts": 32, "buffer_size": 500, "train_freq": 4}),
    ):
        model = algorithm("MlpPolicy", SnakeEnv(obs="flood"), device="cpu", seed=0, **settings)
        before = [parameter.clone() for parameter in model.policy.parameters()]
        model.learn(128)
        pairs = zip(before, model.policy.parameters(), strict=True)
        assert any(bool((old != new).any()) for old, new in pairs)


@pytest.mark.parametrize("obs", ["features", "grid"])
def test_briskrl_trains_on_it(obs: str) -> None:
    """Transitions are collected, stored and used for updates."""
    config = complete(
        TrainConfig(
            env="snake",
            num_envs=16,
            env_config={"obs": obs, "height": 6, "width": 6, "masks": True},
            algo_config={"learning_starts": 64, "buffer_size": 1024, "batch_size": 32},
        )
    )
    session = Trainer(config)
    session.start()
    ended = sum(session.iterate().count for _ in range(100))
    assert session.counters.env_steps == 1600
    assert session.counters.episodes == ended > 0
    assert session.counters.updates > 0
    session.close()


def test_infos_hold_records_only_when_an_episode_ends() -> None:
    """Arrays with their masks, and the same records in final_info."""
    env = SnakeVecEnv(6, height=5, width=5, obs="features")
    _, infos = env.reset(seed=2)
    assert infos == {}
    games = [Game(Rules(5, 5), 2 + i) for i in range(6)]
    rng = np.random.default_rng(1)
    types = {
        "score": np.int32,
        "episode_steps": np.int32,
        "return": np.float32,
        "cause": np.uint8,
        "fill": np.float32,
    }
    num_ends = 0
    for _ in range(150):
        actions = rng.integers(3, size=6)
        *_, terminated, truncated, infos = env.step(actions)
        outcomes = [game.step(int(a)) for game, a in zip(games, actions, strict=True)]
        ended = terminated | truncated
        if not ended.any():
            assert infos == {}
        for i in np.flatnonzero(ended):
            num_ends += 1
            records = (infos, infos["final_info"])
            expected = {
                "score": games[i].score,
                "episode_steps": games[i].steps,
                "return": np.float32(games[i].total),
                "cause": outcomes[i].cause,
                "fill": np.float32(len(games[i].body)) / np.float32(25),
            }
            for record in records:
                for name, value in expected.items():
                    assert record[name].dtype == types[name]
                    assert record[name].shape == (6,)
                    assert record[name][i] == pytest.approx(value, rel=1e-6)
                    np.testing.assert_array_equal(record[f"_{name}"], ended)
            games[i].begin()
    assert num_ends > 20


def test_final_observations_can_be_objects() -> None:
    """The form Gymnasium's own vector classes use."""
    dense, objects = SnakeVecEnv(4), SnakeVecEnv(4, object_final_obs=True)
    dense.reset(seed=0)
    objects.reset(seed=0)
    seen = 0
    for _ in range(60):
        *_, left = dense.step(np.zeros(4, np.int64))
        *_, right = objects.step(np.zeros(4, np.int64))
        if not left:
            continue
        assert left["final_obs"].dtype == np.float32
        assert right["final_obs"].dtype == object
        np.testing.assert_array_equal(left["_final_obs"], right["_final_obs"])
        for i, valid in enumerate(left["_final_obs"]):
            if valid:
                seen += 1
                np.testing.assert_array_equal(left["final_obs"][i], right["final_obs"][i])
            else:
                assert right["final_obs"][i] is None
    assert seen > 4


def test_results_are_copies_unless_copy_is_false() -> None:
    copied, shared = SnakeVecEnv(2), SnakeVecEnv(2, copy=False)
    for env, same in ((copied, False), (shared, True)):
        env.reset(seed=0)
        first = env.step(np.zeros(2, np.int64))[0]
        second = env.step(np.zeros(2, np.int64))[0]
        assert np.shares_memory(first, second) is same


@pytest.mark.parametrize("dtype", [np.int8, np.uint8, np.int32, np.int64, np.uint64])
def test_actions_may_have_any_integer_dtype(dtype: type) -> None:
    env, other = SnakeVecEnv(3), SnakeVecEnv(3)
    env.reset(seed=0)
    other.reset(seed=0)
    for action in (0, 1, 2):
        left = env.step(np.full(3, action, dtype))
        right = other.step(np.full(3, action, np.int64))
        np.testing.assert_array_equal(left[0], right[0])


@pytest.mark.parametrize(
    ("actions", "mode"),
    [([0, 3], "relative"), ([-1, 0], "relative"), ([4, 0], "absolute"), ([0, 255], "absolute")],
)
def test_actions_out_of_range_are_refused(actions: list[int], mode: str) -> None:
    """And the games stay as they were."""
    env = SnakeVecEnv(2, actions=mode)
    env.reset(seed=0)
    before = env.peek()
    with pytest.raises(ValueError, match="action"):
        env.step(np.array(actions))
    for name, array in env.peek().items():
        np.testing.assert_array_equal(array, before[name], err_msg=name)


@pytest.mark.parametrize("actions", [np.zeros(3, np.int64), np.zeros((2, 1), np.int64)])
def test_actions_of_another_shape_are_refused(actions: np.ndarray) -> None:
    env = SnakeVecEnv(2)
    env.reset(seed=0)
    with pytest.raises((ValueError, TypeError)):
        env.step(actions)


@pytest.mark.parametrize(
    "settings",
    [
        {"height": 3},
        {"width": 65},
        {"start": "cycle", "height": 5, "width": 7},
        {"obs": "grid", "grid_frame": "ego", "height": 5},
        {"mirror": True, "actions": "absolute"},
        {"obs": "pixels"},
        {"hunger_limit": -1},
        {"tail_rule": "soft"},
    ],
    ids=str,
)
def test_invalid_settings_are_refused(settings: dict[str, Any]) -> None:
    with pytest.raises(Exception, match=r"height|width|even|square|relative|obs|hunger|tail_rule"):
        SnakeVecEnv(2, **settings)


def test_a_hunger_limit_that_forbids_filling_the_board_warns() -> None:
    with pytest.warns(UserWarning, match="hunger_limit"):
        SnakeVecEnv(1, height=6, width=6, hunger_limit=35)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for limit in (36, 0, None):
            SnakeVecEnv(1, height=6, width=6, hunger_limit=limit)


def test_text_shows_the_board() -> None:
    single = Single(height=4, width=5, render_mode="ansi")
    single.put(body((1, 2), "LDR"), (3, 4), steps=7, hunger=3)
    (picture,) = single.env.render()
    lines = picture.rstrip("\n").split("\n")
    assert len(lines) == 7
    rows = [line[1:-1] for line in lines[1:5]]
    assert rows == [".....", ".oH..", ".ot..", "....*"]
    for number in ("1", "7", "3"):
        assert number in lines[-1]


def test_images_have_one_square_per_cell() -> None:
    """16 pixels a cell, a few fixed colors, one frame per game or a single one."""
    env = SnakeVecEnv(3, height=4, width=6, render_mode="rgb_array")
    env.reset(seed=0)
    frames = env.render()
    assert isinstance(frames, tuple)
    assert len(frames) == 3
    for i, frame in enumerate(frames):
        assert frame.shape == (64, 96, 3)
        assert frame.dtype == np.uint8
        middles = frame[8::16, 8::16].reshape(-1, 3)
        cells = env.body(i).astype(int)
        food = int(env.peek()["food"][i])
        colors = {name: tuple(middles[at]) for name, at in (("head", cells[0]), ("food", food))}
        colors["body"] = tuple(middles[cells[1]])
        free = {tuple(middles[k]) for k in range(24) if k != food and k not in cells}
        assert len(set(colors.values())) == 3
        assert len(free) <= 2
        assert not free & set(colors.values())
    one = SnakeVecEnv(3, height=4, width=6, render_mode="rgb_array", render_index=1)
    one.reset(seed=0)
    picture = one.render()
    picture = picture[0] if isinstance(picture, tuple) else picture
    np.testing.assert_array_equal(picture, frames[1])


def test_a_single_game_renders_itself() -> None:
    env = SnakeEnv(render_mode="rgb_array")
    env.reset(seed=0)
    frame = env.render()
    assert isinstance(frame, np.ndarray)
    assert frame.shape == (160, 160, 3)
    text = SnakeEnv(render_mode="ansi")
    text.reset(seed=0)
    picture = text.render()
    assert isinstance(picture, str)
    assert picture.count("H") == 1
    assert picture.count("*") == 1


def test_infos_report_a_win() -> None:
    """Cause 6 with fill 1."""
    cycle = hamiltonian_cycle(4, 4)
    single = Single(height=4, width=4).put(cycle[:15][::-1], cycle[15])
    *_, terminated, truncated, infos = single.env.step(np.array([0]))
    assert (terminated.tolist(), truncated.tolist()) == ([True], [False])
    assert infos["cause"].tolist() == [FILLED]
    assert infos["fill"].tolist() == [1]
    assert infos["score"].tolist() == [13]


@pytest.mark.parametrize("mode", list(AutoresetMode))
def test_metadata_holds_the_autoreset_mode_of_the_instance(mode: AutoresetMode) -> None:
    """Per instance, not per class."""
    env = SnakeVecEnv(1, autoreset_mode=mode)
    assert env.metadata["autoreset_mode"] is mode
    assert SnakeVecEnv(1).metadata["autoreset_mode"] is AutoresetMode.SAME_STEP
    assert env.metadata["autoreset_mode"] is mode
