"""The search space: what may change, and what must not."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from briskrl.algos.dqn.config import DQNConfig
from briskrl.bench.snake_dqn import snake_dqn
from briskrl.core.config import to_dict
from briskrl.training.config import TrainConfig
from briskrl.training.resolve import complete
from briskrl.tuning.config import TuneConfig
from briskrl.tuning.space import Space, max_replay_envs


def space(config: TrainConfig, *, cores: int = 2, fused: bool = True, **settings: Any) -> Space:
    return Space(complete(config), TuneConfig(**settings), cores=cores, fused=fused)


DQN = TrainConfig(num_envs=64)
PPO = TrainConfig(
    env="gym:MountainCar-v0",
    algo="ppo",
    num_envs=64,
    algo_config={"update_steps": 32, "minibatch_size": 4096, "gae_lambda": 0.95},
)


@pytest.mark.parametrize("config", [DQN, PPO, replace(PPO, env="snake", num_envs=1024)])
def test_settings_that_affect_learning_do_not_change(config: TrainConfig) -> None:
    found = space(config)
    before = to_dict(found.config)
    may_change = {"num_envs", "threads", "engine", "overlap", "env_config", "algo_config"}
    for point in found.points:
        after = to_dict(found.apply(point))
        assert {key for key in before if before[key] != after.get(key)} <= may_change
        algo = {
            key
            for key in before["algo_config"]
            if before["algo_config"][key] != after["algo_config"][key]
        }
        assert algo <= {"update_steps"}
        env = {
            key
            for key in before["env_config"]
            if before["env_config"][key] != after["env_config"][key]
        }
        assert env <= {"backend"}


def test_rollouts_and_minibatches_keep_their_size_with_another_number_of_environments() -> None:
    found = space(PPO)
    counts = set()
    for point in found.points:
        config = found.apply(point)
        assert config.num_envs * config.algo_config.update_steps == 64 * 32
        assert config.algo_config.minibatches(config.num_envs) == 1
        counts.add(config.num_envs)
    assert counts == {8, 16, 32, 64}


def test_rollouts_stay_longer_than_the_horizon_of_gae() -> None:
    config = replace(PPO, num_envs=8, algo_config={"update_steps": 256, "gae_lambda": 0.95})
    longest = 1 / (1 - 0.99 * 0.95)
    lengths = {found.algo_config.update_steps for found in map_points(space(config))}
    assert min(lengths) == 32 > longest > 16
    short_horizon = replace(PPO, num_envs=8, algo_config={"update_steps": 256, "gae_lambda": 0.5})
    lengths = {found.algo_config.update_steps for found in map_points(space(short_horizon))}
    assert min(lengths) == 8


def map_points(found: Space) -> list[TrainConfig]:
    return [found.apply(point) for point in found.points]


@pytest.mark.parametrize("algo", ["a2c", "reinforce"])
def test_rollout_lengths_are_fixed_where_returns_extend_to_the_end(algo: str) -> None:
    found = space(replace(PPO, algo=algo, algo_config=None))
    assert {config.algo_config.update_steps for config in map_points(found)} == {
        found.config.algo_config.update_steps
    }


def test_with_a_replay_buffer_the_acting_policy_stays_recent() -> None:
    # Bounds: learning_starts 10,000 / 4, target period 16,000 / 8, buffer 131,072 / 64.
    assert max_replay_envs(snake_dqn()) == 2000
    assert max_replay_envs(snake_dqn(train_steps_ratio="quality")) == 250
    assert max_replay_envs(snake_dqn(target_unit="steps", target_every=4000)) == 500
    assert max_replay_envs(snake_dqn(buffer_size=10_000)) == 156
    assert max_replay_envs(snake_dqn(learning_starts=100)) == 25
    # A target network that moves by a hundredth every 16 transitions: 1,600 / 8.
    assert max_replay_envs(DQNConfig()) == 200
    assert max(space(DQN).axes["num_envs"]) == 1024
    poor = replace(DQN, num_envs=8, algo_config={"train_steps_ratio": "quality"})
    assert space(poor).axes["num_envs"] == (8, 16, 32, 64, 128)


def test_short_runs_limit_the_number_of_environments() -> None:
    assert max(space(replace(DQN, steps=200_000)).axes["num_envs"]) == 128
    assert max(space(replace(DQN, num_envs=512, steps=200_000)).axes["num_envs"]) == 512


def test_a_start_beyond_the_bounds_may_stay_or_shrink() -> None:
    counts = space(replace(DQN, num_envs=5000)).axes["num_envs"]
    assert counts[-1] == 5000
    assert counts[-2] == 4096
    assert counts[0] == 8


def test_the_config_of_the_start_is_the_original() -> None:
    found = space(replace(PPO, threads="auto"))
    assert found.start["engine"] == "auto"
    assert found.start["backend"] == "auto"
    assert found.apply(found.start) is found.config
    assert found.points[0] == found.start
    assert len(set(found.points)) == len(found.points)


def test_the_total_number_of_episodes_does_not_depend_on_num_envs() -> None:
    config = replace(DQN, max_episodes=10, steps=None)
    assert {found.budget.episodes for found in map_points(space(config))} == {640}


def test_only_valid_engines_threads_and_overlap_are_in_the_space() -> None:
    assert space(DQN, cores=6).axes["threads"] == (1, 2, 4, 6)
    assert space(DQN, fused=False).axes["engine"] == ("torch",)
    assert "overlap" not in space(DQN, fused=False).axes
    assert "overlap" not in space(DQN, cores=1).axes
    assert "overlap" not in space(PPO).axes
    assert "backend" not in space(DQN).axes
    gym = space(replace(DQN, env="gym:MountainCar-v0"))
    overlapping = [point for point in gym.points if point["overlap"]]
    assert overlapping
    for point in overlapping:
        assert point["engine"] in ("fused", "auto")
        assert point["backend"] != "async"


def test_every_axis_has_a_single_change_even_if_the_start_is_auto() -> None:
    found = space(replace(DQN, env="gym:CartPole-v1"))
    changed = [point.changed_axes(found.start) for point in found.points]
    single = [axes for axes in changed if len(axes) == 1]
    assert {axis for (axis,) in single} == set(found.axes)
    assert found.start["engine"] == found.start["backend"] == "auto"


def test_compiled_environments_are_tuned_with_no_other_backend() -> None:
    found = space(replace(PPO, env="gym:CartPole-v1", env_config={"backend": "process"}))
    assert found.axes["backend"] == ("compiled",)
    assert {point["backend"] for point in found.points} == {"process", "compiled"}
    free = space(replace(PPO, env="gym:CartPole-v1"), also=("num_envs",))
    assert max(free.axes["num_envs"]) > 256


def test_min_ready_is_set_only_with_the_async_backend() -> None:
    config = replace(PPO, env_config={"backend": "async", "min_ready": 8})
    for found in map_points(space(config)):
        assert found.env_config.min_ready == (8 if found.env_config.backend == "async" else 0)
        assert not found.env_config.check()


def test_kept_settings_do_not_change() -> None:
    found = space(replace(DQN, threads=2), keep=("num_envs", "threads", "backend"))
    assert found.axes["num_envs"] == (64,)
    assert found.axes["threads"] == (2,)
    assert {point["engine"] for point in found.points} == {"auto", "fused", "torch"}


def test_settings_that_change_learning_are_tuned_on_request_only() -> None:
    assert "minibatch" not in space(PPO).axes
    assert "vector" not in space(PPO).axes["backend"]
    found = space(PPO, also=("minibatch", "vector"))
    assert found.axes["minibatch"] == (64, 128, 256, 512, 1024, 2048, 4096)
    assert "vector" in found.axes["backend"]
    assert {c.algo_config.minibatch_size for c in map_points(found)} == set(found.axes["minibatch"])
    free = space(PPO, also=("num_envs",))
    assert max(free.axes["num_envs"]) == 256
    for config in map_points(free):
        assert config.algo_config.update_steps == 32
    assert "minibatch" not in space(DQN, also=("minibatch",)).axes


def test_every_point_is_a_valid_config() -> None:
    for config in (DQN, PPO, replace(DQN, env="gym:CartPole-v1", threads="auto")):
        for found in map_points(space(config, also=("minibatch", "num_envs", "vector"))):
            assert complete(found) == found


def test_distance_grows_with_the_number_and_size_of_changes() -> None:
    found = space(DQN)
    by_axis = {
        tuple(point.changed_axes(found.start)): found.distance(point) for point in found.points
    }
    assert by_axis[()] == 0
    assert by_axis[("engine",)] == 1
    far, near = (
        next(found.distance(p) for p in found.points if p["num_envs"] == n) for n in (1024, 128)
    )
    assert far > near
