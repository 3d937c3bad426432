"""Hooks of the caller: evaluations, stopping at a score, own numbers, and hooks that fail."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from briskrl import EvaluateEvery, StopAtScore
from briskrl.core.errors import ConfigError
from briskrl.training.config import TrainConfig
from briskrl.training.evaluate import evaluate
from briskrl.training.loop import resume, train
from briskrl.training.storage.run_dir import RunDir
from tests.training.runs import fused_config


def cartpole(path: Path, steps: int = 640, **changes: Any) -> TrainConfig:
    return fused_config(path, "ppo", env="cartpole", num_envs=8, steps=steps, **changes)


def model(folder: Path) -> bytes:
    return (folder / "policy" / "model.safetensors").read_bytes()


def test_evaluations_happen_on_time_and_change_nothing(tmp_path: Path) -> None:
    evaluations = EvaluateEvery(256, episodes=3)
    train(cartpole(tmp_path / "with"), hooks=[evaluations])
    train(cartpole(tmp_path / "without"))
    assert model(tmp_path / "with") == model(tmp_path / "without")
    assert [step for step, _ in evaluations.results] == [256, 512]
    rows = [json.loads(line) for line in (tmp_path / "with" / "metrics.jsonl").open()]
    logged = [row["eval_score"] for row in rows if "eval_score" in row]
    assert logged
    assert logged[-1] == evaluations.results[-1][1].mean_score


def test_the_last_evaluation_is_that_of_the_saved_policy(tmp_path: Path) -> None:
    evaluations = EvaluateEvery(320, episodes=5, seed=3)
    train(cartpole(tmp_path / "run"), hooks=[evaluations])
    assert evaluations.results[-1][1] == evaluate(tmp_path / "run", episodes=5, seed=3)


@pytest.mark.parametrize(
    "hook", [StopAtScore(5.0, episodes=1), EvaluateEvery(128, episodes=2, stop_at=1.0)]
)
def test_a_run_ends_at_a_score_and_can_be_resumed(hook: Any, tmp_path: Path) -> None:
    result = train(cartpole(tmp_path / "run", steps=4096), hooks=[hook])
    assert result.stopped == "callback"
    assert 0 < result.env_steps < 4096
    assert resume(tmp_path / "run").stopped == "finished"


def test_an_unreachable_score_stops_nothing(tmp_path: Path) -> None:
    result = train(cartpole(tmp_path / "run"), hooks=[StopAtScore(1e6, episodes=1)])
    assert (result.stopped, result.env_steps) == ("finished", 640)


def test_own_numbers_are_logged_once(tmp_path: Path) -> None:
    def log(recorder: Any) -> None:
        if recorder.trainer.counters.env_steps == 64:
            recorder.log_values(tide=3.5)

    train(cartpole(tmp_path / "run"), hooks=[log])
    rows = [json.loads(line) for line in (tmp_path / "run" / "metrics.jsonl").open()]
    assert [row["tide"] for row in rows if "tide" in row] == [3.5]


def test_a_hook_that_raises_leaves_a_checkpoint(tmp_path: Path) -> None:
    def fail(recorder: Any) -> None:
        if recorder.trainer.counters.env_steps == 256:
            raise RuntimeError("the lamp went out")

    with pytest.raises(RuntimeError, match="the lamp"):
        train(cartpole(tmp_path / "run", checkpoint_seconds=0), hooks=[fail])
    assert RunDir.open(tmp_path / "run").read_meta()["exit_reason"] == "failed: RuntimeError"
    notes: list[str] = []
    assert resume(tmp_path / "run", reporter=Notes(notes)).env_steps == 640
    assert "continuing from step 256" in notes
    train(cartpole(tmp_path / "whole"))
    assert model(tmp_path / "run") == model(tmp_path / "whole")


def test_a_learning_rate_changed_at_resume_counts_and_is_recorded(tmp_path: Path) -> None:
    constant = {"lr_schedule": "constant", "lr": 1e-3}
    for name in ("changed", "same"):
        train(cartpole(tmp_path / name, algo_config=constant))
    resume(tmp_path / "same", steps=1280)
    resume(tmp_path / "changed", steps=1280, algo_config={"lr": 1e-5})
    assert model(tmp_path / "changed") != model(tmp_path / "same")
    sessions: Any = RunDir.open(tmp_path / "changed").read_meta()["sessions"]
    assert "changes" not in sessions[0]
    assert sessions[1]["changes"] == {"algo_config.lr": [1e-3, 1e-5], "steps": [640, 1280]}
    # It stays for the next session.
    resume(tmp_path / "changed", steps=1344)
    sessions = RunDir.open(tmp_path / "changed").read_meta()["sessions"]
    assert sessions[2]["changes"] == {"steps": [1280, 1344]}
    with pytest.raises(ConfigError, match=r"gamma cannot change.*lr"):
        resume(tmp_path / "changed", steps=2048, algo_config={"gamma": 0.5})


@pytest.mark.parametrize("algo", ["ppo", "dqn"])
def test_a_run_starts_from_the_policy_of_another(algo: str, tmp_path: Path) -> None:
    first = fused_config(tmp_path / "first", algo, env="cartpole", num_envs=8, steps=640)
    train(first)
    # Too few steps for an update: the networks stay those of the other run.
    second = fused_config(
        tmp_path / "second", algo, env="cartpole", num_envs=8, steps=8, seed=first.seed + 1
    )
    train(second, start_from=tmp_path / "first")
    assert model(tmp_path / "second") == model(tmp_path / "first")
    meta = RunDir.open(tmp_path / "second").read_meta()
    assert meta["start_from"] == str(tmp_path / "first")


def test_a_policy_with_other_networks_is_refused(tmp_path: Path) -> None:
    train(cartpole(tmp_path / "first"))
    other = cartpole(tmp_path / "second", algo_config={"net": (7,)})
    with pytest.raises(ConfigError, match="other networks than this run"):
        train(other, start_from=tmp_path / "first")
    assert not (tmp_path / "second").exists()


class Notes:
    """Keeps the notes of a run."""

    def __init__(self, notes: list[str]) -> None:
        self._notes = notes

    def on_note(self, text: str) -> None:
        self._notes.append(text)

    def __getattr__(self, name: str) -> Any:
        return lambda *args: None
