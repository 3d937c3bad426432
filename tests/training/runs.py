"""Small real runs for the tests of the loop."""

from __future__ import annotations

import hashlib
from pathlib import Path

from briskrl.algos.dqn.config import DQN_PRESETS
from briskrl.algos.ppo.config import PPO_PRESETS
from briskrl.training.config import TrainConfig
from tests.algos.transitions import PLAIN

_DQN = {
    "net": (32,),
    "batch_size": 16,
    "buffer_size": 1024,
    "learning_starts": 200,
    "train_steps_ratio": 0.1,
    "target_every": 20,
    "epsilon_steps": 2000,
}
# A learning rate that decays over the budget would make runs with other budgets differ.
_ON_POLICY = {"net": (32,), "update_steps": 12, "minibatch_size": 48, "lr_schedule": "constant"}
_PQN = {**_ON_POLICY, "epsilon_steps": 2000}


def small_config(run_dir: Path, preset: str = "dqn", **options) -> TrainConfig:
    """A run of a few hundred updates that takes about a second.

    Without the zoo, whose tuned settings would change what a test of the loop is about.
    """
    algo = {**_small(preset), **options.pop("algo_config", {})}
    values = {"steps": 3000, "num_envs": 16, "checkpoint_seconds": 0.0, "seed": 5}
    values |= {"zoo": False, **options}
    return TrainConfig(algo=preset, run_dir=str(run_dir), algo_config=algo, **values)


def fused_config(run_dir: Path, preset: str = "dqn", **options) -> TrainConfig:
    """A small run to be equal to another one to the bit.

    `auto` chooses an engine by its speed, which depends on the load of the machine, and engines
    round differently.
    """
    return small_config(run_dir, preset, engine="fused", **options)


def _small(preset: str) -> dict[str, object]:
    if preset in PPO_PRESETS:
        return _ON_POLICY
    if preset == "pqn":
        return _PQN
    return {**PLAIN, **_DQN, **DQN_PRESETS[preset]}


def policy_hash(run_dir: Path) -> str:
    """A hash of the saved parameters."""
    return hashlib.sha256((Path(run_dir) / "policy" / "model.safetensors").read_bytes()).hexdigest()
