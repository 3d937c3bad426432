"""Training on environments that the caller built."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pytest

from briskrl.core.errors import ConfigError
from briskrl.core.spec import EnvSpec
from briskrl.core.types import Array, EpisodeStats, StepBuffers
from briskrl.envs.cartpole.env import CartPoleVecEnv
from briskrl.envs.external import REQUIRED, adapt
from briskrl.training.config import TrainConfig
from briskrl.training.loop import resume, train


def test_a_vec_env_of_the_package_trains_and_resumes_with_a_warm_up(tmp_path):
    run_dir = str(tmp_path / "run")
    config = TrainConfig(algo="a2c", num_envs=8, steps=640, run_dir=run_dir, engine="fused")
    assert config.warmup
    assert train(config, env=CartPoleVecEnv(8)).env_steps == 640
    assert resume(run_dir, steps=1280, env=CartPoleVecEnv(8)).env_steps == 1280


class OwnVecEnv:
    """Only what a VecEnv must have: without notes, codec and async_env."""

    def __init__(self, num_envs: int) -> None:
        self._inner = CartPoleVecEnv(num_envs)
        self.num_envs = num_envs
        self.env_spec: EnvSpec = self._inner.env_spec

    def start(self, seed: int, out: StepBuffers) -> None:
        self._inner.start(seed, out)

    def step_into(self, actions: Array, out: StepBuffers) -> None:
        self._inner.step_into(actions, out)

    def drain_stats(self) -> EpisodeStats:
        return self._inner.drain_stats()

    def get_state(self) -> Mapping[str, Array]:
        return self._inner.get_state()

    def set_state(self, state: Mapping[str, Array]) -> None:
        self._inner.set_state(state)

    def close(self) -> None:
        self._inner.close()


def test_a_vec_env_without_the_optional_parts_trains_like_a_complete_one(tmp_path):
    def run(name: str, env: Any) -> bytes:
        folder = tmp_path / name
        config = TrainConfig(algo="a2c", num_envs=8, steps=640, run_dir=str(folder), engine="fused")
        assert train(config, env=env).env_steps == 640
        return (folder / "policy" / "model.safetensors").read_bytes()

    assert run("own", OwnVecEnv(8)) == run("whole", CartPoleVecEnv(8))
    assert resume(tmp_path / "own", steps=1280, env=OwnVecEnv(8)).env_steps == 1280


@pytest.mark.parametrize("missing", [name for name in REQUIRED if name != "step_into"])
def test_a_vec_env_without_a_required_part_is_an_error_that_names_it(missing):
    parts = {name: (lambda *args: None) for name in REQUIRED if name != missing}
    with pytest.raises(ConfigError, match=f"OwnEnv has step_into.* it has no {missing}\\."):
        adapt(type("OwnEnv", (), parts)())
