"""A short training run places breaks better than simple rules do, on fires it has never seen."""

from __future__ import annotations

from dataclasses import replace

import pytest

from briskrl.algos.ppo.config import PPOConfig
from briskrl.bench.snake_dqn import snake_dqn
from briskrl.core.errors import ConfigError
from briskrl.envs.wildfire.config import WildfireConfig
from briskrl.training.config import TrainConfig
from briskrl.training.evaluate import load_policy, play_games, run_suite
from briskrl.training.loop import train


@pytest.mark.parametrize("seed", [0, 1])
def test_ppo_learns_where_to_put_breaks(tmp_path, seed):
    env = WildfireConfig(
        height=8,
        width=8,
        landscapes=1,
        obs_channels=("treated",),
        budget_frac=4 / 64,
        n_fires=16,
        n_weather=4,
        plan_fires=128,
    )
    algo = PPOConfig(update_steps=16, minibatch_size=512, lr=3e-3, gamma=1.0, body="mlp", net=(64,))
    train(
        TrainConfig(
            env="wildfire",
            env_config=env,
            algo="ppo",
            algo_config=algo,
            num_envs=64,
            steps=40_960,
            seed=seed,
            run_dir=str(tmp_path / "run"),
        )
    )
    report = run_suite(load_policy(tmp_path / "run"), "wildfire-own").as_json()
    for baseline in ("random", "burn-prob", "line", "dpv-static"):
        assert report["vs"][baseline]["relative_pct"] < -5


def tiny(**settings):
    return WildfireConfig(
        **{
            "height": 8,
            "width": 8,
            "landscapes": 6,
            "budget_frac": 5 / 64,
            "n_fires": 16,
            "obs_fires": 32,
            "n_weather": 4,
            "plan_fires": 128,
            **settings,
        }
    )


def train_small(tmp_path, algo, env, algo_config, steps, num_envs=16):
    train(
        TrainConfig(
            env="wildfire",
            env_config=env,
            algo=algo,
            algo_config=algo_config,
            num_envs=num_envs,
            steps=steps,
            run_dir=str(tmp_path / "run"),
        )
    )
    return load_policy(tmp_path / "run")


def test_dqn_with_one_value_per_cell_generalizes_to_other_landscapes(tmp_path):
    algo = snake_dqn(
        learning_starts=500,
        epsilon_steps=4_000,
        lr=2e-3,
        gamma=1.0,
        double=True,
        train_steps_ratio=0.125,
        batch_size=32,
        target_every=50,
        channels=(8, 8, 8),
    )
    agent = train_small(tmp_path, "dqn", tiny(), algo, 9_000)
    unseen = replace(agent, env_config=tiny(split="test", landscapes=12))
    report = run_suite(unseen, "wildfire-own").as_json()
    for baseline in ("random", "line"):
        assert report["vs"][baseline]["ci"][1] < 0


def test_ppo_learns_to_place_two_breaks_at_a_time(tmp_path):
    algo = PPOConfig(
        update_steps=6,
        minibatch_size=96,
        lr=3e-3,
        gamma=1.0,
        shared=True,
        activation="relu",
        net=(16,),
        channels=(8, 8, 8),
    )
    env = tiny(cells_per_step=2, budget_frac=6 / 64)
    agent = train_small(tmp_path, "ppo", env, algo, 12_000, num_envs=32)
    unseen = replace(agent, env_config=replace(env, split="test", landscapes=12))
    report = run_suite(unseen, "wildfire-own").as_json()
    for baseline in ("random", "line"):
        assert report["vs"][baseline]["ci"][1] < 0


def test_a_policy_plays_boards_of_another_size(tmp_path):
    algo = PPOConfig(update_steps=4, minibatch_size=32, channels=(4, 4), net=(8,))
    agent = train_small(tmp_path, "ppo", tiny(), algo, 128)
    games = play_games(replace(agent, env_config=tiny(height=11, width=9)), episodes=4, seed=0)
    assert (games.steps == round(99 * 5 / 64)).all()
    several = replace(agent, env_config=tiny(height=11, width=9, cells_per_step=3))
    assert (play_games(several, episodes=4, seed=0).steps == 3).all()


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"body": "cnn"}, r"\(15, 8, 8\).*64 actions.*--body fcn"),
        ({"normalize_obs": True}, "only without --normalize-obs"),
    ],
)
def test_a_policy_for_a_fixed_size_refuses_another_size(tmp_path, options, message):
    algo = PPOConfig(update_steps=4, minibatch_size=32, channels=(4,), net=(8,), **options)
    agent = train_small(tmp_path, "ppo", tiny(landscapes=1), algo, 64)
    with pytest.raises(ConfigError, match=message):
        play_games(replace(agent, env_config=tiny(height=9)), episodes=2, seed=0)
