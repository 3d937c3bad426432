"""Environments of other packages, with the real packages: spaces, learning steps, evaluation."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from briskrl.cli.main import main
from briskrl.core.types import StepBuffers
from briskrl.envs.gym.config import GymConfig
from briskrl.envs.make import make_env
from briskrl.training.config import TrainConfig
from briskrl.training.evaluate import evaluate
from briskrl.training.loop import resume, train

OBSERVATIONS = {
    "MiniGrid-Empty-5x5-v0": ((4 + 7 * 7 * 3,), "uint8"),
    "MinAtar/Breakout-v1": ((4, 10, 10), "float32"),
    "LunarLander-v3": ((8,), "float32"),
    "HalfCheetah-v5": ((17,), "float32"),
    "Blackjack-v1": ((32 + 11 + 2,), "float32"),
    "FrozenLake-v1": ((16,), "float32"),
}


@pytest.mark.parametrize("member", OBSERVATIONS)
def test_environments_of_other_packages_play(
    member: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    # MuJoCo writes its warnings to a file in the current folder.
    monkeypatch.chdir(tmp_path)
    env: Any = make_env(f"gym:{member}", 2, config=GymConfig(backend="sync"))
    try:
        assert (env.env_spec.obs.shape, env.env_spec.obs.dtype.name) == OBSERVATIONS[member]
        buffers = StepBuffers.allocate(env.env_spec, 2)
        env.start(3, buffers)
        action = env._group.envs[0].action_space
        action.seed(0)
        for _ in range(40):
            actions = np.stack([action.sample(), action.sample()])
            env.step_into(actions, buffers)
        assert np.isfinite(buffers.reward).all()
        assert buffers.obs.any()
    finally:
        env.close()


@pytest.mark.parametrize("algo", ["dqn", "ppo"])
def test_minigrid_trains_as_it_is_registered(algo: str, tmp_path: Path) -> None:
    """A Dict of an image, a direction and a text."""
    config = TrainConfig(
        env="gym:MiniGrid-Empty-5x5-v0",
        algo=algo,
        num_envs=4,
        steps=512,
        run_dir=str(tmp_path / "run"),
        env_config={"backend": "sync"},
        algo_config={"batch_size": 32, "net": (16,)}
        | ({"learning_starts": 100} if algo == "dqn" else {"update_steps": 32}),
    )
    notes: list[str] = []
    result = train(config, reporter=Notes(notes))
    assert result.updates > 0
    assert "Parts of the observations are text and are left out: mission." in notes
    assert any("the network's body is convolutional" in note for note in notes)
    assert resume(tmp_path / "run", steps=640).env_steps == 640
    assert evaluate(tmp_path / "run", episodes=2).mean_steps > 0


def test_the_command_line_needs_no_import_for_known_packages(tmp_path: Path) -> None:
    words = ["train", "gym:MinAtar/Breakout-v1", "--algo", "a2c", "--num-envs", "4"]
    words += ["--steps", "128", "--net", "16", "--channels", "4", "--run-dir", str(tmp_path / "r")]
    assert main(words) == 0


class Notes:
    """Keeps the notes of a run."""

    def __init__(self, notes: list[str]) -> None:
        self._notes = notes

    def on_note(self, text: str) -> None:
        self._notes.append(text)

    def __getattr__(self, name: str) -> Any:
        return lambda *args: None
