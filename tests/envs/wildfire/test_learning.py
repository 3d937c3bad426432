"""A short training run places breaks better than simple rules do, on fires it has never seen."""

from __future__ import annotations

import pytest

from briskrl.algos.config import OnPolicyConfig
from briskrl.envs.wildfire.config import WildfireConfig
from briskrl.train.config import TrainConfig
from briskrl.train.evaluate import load_policy
from briskrl.train.loop import train
from briskrl.train.suites import run_suite


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
    algo = OnPolicyConfig(
        update_steps=16, minibatch_size=512, lr=3e-3, gamma=1.0, body="mlp", net=(64,)
    )
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
