"""PQN in whole runs: it learns, resumes to the same bits, and uses masks, CNNs and threads."""

from __future__ import annotations

from contextlib import closing

import numpy as np
import pytest

from briskrl.training.config import TrainConfig
from briskrl.training.evaluate import evaluate
from briskrl.training.loop import resume, train
from briskrl.training.resolve import complete
from briskrl.training.trainer import Trainer
from tests.training.runs import policy_hash

SMALL = {
    "net": (32,),
    "update_steps": 12,
    "minibatch_size": 48,
    "lr_schedule": "constant",
    "epsilon_steps": 2000,
}


def small(run_dir, **options):
    algo = {**SMALL, **options.pop("algo_config", {})}
    values = {"num_envs": 16, "engine": "fused", "checkpoint_seconds": 0.0, "seed": 5, **options}
    return TrainConfig(algo="pqn", run_dir=str(run_dir), algo_config=algo, **values)


@pytest.mark.parametrize(
    "options",
    [
        {},
        {"threads": 2, "algo_config": {"normalize_obs": True, "normalize_reward": True}},
        {"env_config": {"masks": True, "height": 4, "width": 4}},
    ],
    ids=["plain", "normalized-threads", "masks"],
)
def test_a_run_resumed_in_a_rollout_ends_like_an_uninterrupted_one(tmp_path, options):
    train(small(tmp_path / "whole", steps=6000, **options))
    train(small(tmp_path / "parts", steps=1000, **options))
    for steps in (2500, 6000):
        resume(tmp_path / "parts", steps=steps)
    assert policy_hash(tmp_path / "parts") == policy_hash(tmp_path / "whole")


def test_masks_of_final_observations_are_kept_for_truncated_episodes(tmp_path):
    env = {"masks": True, "height": 4, "width": 4}
    with closing(Trainer(complete(small(tmp_path, env_config=env)))) as trainer:
        trainer.start()
        rollout = trainer.memory.rollouts()[0]
        for _ in range(11):
            trainer.iterate()
        trainer.memory.truncate_episodes(trainer.collector.now)
        assert rollout.final_mask is not None
        assert rollout.truncated[10].any()
        for env in np.flatnonzero(rollout.truncated[10]):
            assert (rollout.final_mask[10, env] == rollout.mask[11, env]).all()


def test_both_engines_learn_the_same_within_rounding(tmp_path):
    found = []
    for engine in ("torch", "fused"):
        with closing(Trainer(complete(small(tmp_path, engine=engine)))) as trainer:
            trainer.start()
            for _ in range(12):
                trainer.iterate()
            found.append(trainer.algo.model.flat.values.numpy().copy())
    assert found[0] == pytest.approx(found[1], abs=2e-5)


@pytest.mark.parametrize("seed", [100, 101])
def test_the_general_defaults_hold_the_pole(tmp_path, seed):
    """All of five fresh seeds reach 500, see benchmarks/defaults_study.jsonl."""
    run = str(tmp_path / "run")
    train(TrainConfig(env="cartpole", algo="pqn", steps=500_000, seed=seed, zoo=False, run_dir=run))
    assert evaluate(run, episodes=100, seed=3).mean_score > 400


def test_a_cnn_finds_food_with_masks(tmp_path):
    env = {"obs": "grid", "height": 5, "width": 5, "grid_frame": "ego", "masks": True}
    algo = {"channels": (16,), "net": (64,), "lr": 1e-3, "minibatch_size": 256}
    train(
        TrainConfig(
            algo="pqn",
            steps=40_000,
            num_envs=64,
            seed=2,
            env_config=env,
            algo_config=algo,
            run_dir=str(tmp_path / "run"),
        )
    )
    assert evaluate(tmp_path / "run", episodes=100, seed=11).mean_score > 2
