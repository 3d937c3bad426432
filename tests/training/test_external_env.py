"""Training on environments that the caller built."""

from __future__ import annotations

from briskrl.envs.cartpole.env import CartPoleVecEnv
from briskrl.training.config import TrainConfig
from briskrl.training.loop import resume, train


def test_a_vec_env_of_the_package_trains_and_resumes_with_a_warm_up(tmp_path):
    run_dir = str(tmp_path / "run")
    config = TrainConfig(algo="a2c", num_envs=8, steps=640, run_dir=run_dir, engine="fused")
    assert config.warmup
    assert train(config, env=CartPoleVecEnv(8)).env_steps == 640
    assert resume(run_dir, steps=1280, env=CartPoleVecEnv(8)).env_steps == 1280
