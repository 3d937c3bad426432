"""Runs on the backends of Gymnasium environments: results do not depend on the backend."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from briskrl.cli.main import main
from briskrl.training.loop import resume, train
from tests.training.runs import policy_hash, small_config

CARTPOLE: dict[str, Any] = {"env": "gym:CartPole-v1", "checkpoint_steps": 960}


def traces(run_dir: Path) -> tuple[str, bytes]:
    """The parameters of a run and the log of its episodes."""
    return policy_hash(run_dir), (run_dir / "episodes.csv").read_bytes()


@pytest.mark.parametrize("preset", ["ppo", "dqn"])
@pytest.mark.parametrize("engine", ["fused", "torch"])
def test_compiled_environments_give_bit_identical_results(
    tmp_path: Path, preset: str, engine: str
) -> None:
    for backend in ("sync", "compiled"):
        settings = {"env_config": {"backend": backend}, "engine": engine}
        train(small_config(tmp_path / backend, preset, **CARTPOLE, **settings))
    assert traces(tmp_path / "compiled") == traces(tmp_path / "sync")


@pytest.mark.parametrize(("first", "then"), [("sync", "compiled"), ("compiled", "sync")])
def test_a_resume_with_another_backend_is_bit_identical(
    tmp_path: Path, first: str, then: str
) -> None:
    whole, parts = tmp_path / "whole", tmp_path / "parts"
    settings = {"env_config": {"backend": first}}
    train(small_config(whole, "ppo", steps=2880, **CARTPOLE, **settings))
    train(small_config(parts, "ppo", steps=960, **CARTPOLE, **settings))
    written = parts / "config.toml"
    text = written.read_text()
    assert f'backend = "{first}"' in text
    written.write_text(text.replace(f'backend = "{first}"', f'backend = "{then}"'))
    resume(parts, steps=2880)
    assert traces(parts) == traces(whole)


@pytest.mark.parametrize("options", [["--num-envs", "1"], ["--num-envs", "1024", "--threads", "2"]])
def test_commands_choose_the_compiled_version_automatically(
    tmp_path: Path, capfd: pytest.CaptureFixture[str], options: list[str]
) -> None:
    run = str(tmp_path / "run")
    args = ["train", "gym:CartPole-v1", "--algo", "ppo", "--steps", "40000", "--run-dir", run]
    assert main([*args, *options]) == 0
    printed = capfd.readouterr()
    assert "so compiled." in " ".join((printed.out + printed.err).split())
    assert main(["eval", run, "--episodes", "20", "--json"]) == 0
    assert json.loads(capfd.readouterr().out)["episodes"] == 20
