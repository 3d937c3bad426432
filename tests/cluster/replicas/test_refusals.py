"""What replicas cannot do is refused before anything is written."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from briskrl import ConfigError, TrainConfig, make_env, train
from briskrl.cli.main import main
from briskrl.cluster.run_job import RunJob
from briskrl.training.resolve import complete
from briskrl.training.trainer import Trainer
from tests.cluster.replicas.replica_runs import PATIENCE_S, long_config


@pytest.mark.parametrize(
    ("changes", "problem"),
    [
        ({"num_envs": 15}, "num_envs 15 is not a multiple of replicas 2"),
        ({"algo": "dqn", "overlap": True}, "overlap is for one process"),
        ({"device": "mps"}, "devices cpu and cuda"),
    ],
)
def test_impossible_settings_are_explained(changes: dict[str, Any], problem: str):
    values = {"env": "cartpole", "algo": "ppo", "num_envs": 16, "replicas": 2, **changes}
    with pytest.raises(ConfigError, match=problem):
        complete(TrainConfig(**values))


def test_hooks_and_environments_of_this_process_are_refused(tmp_path: Path):
    config = TrainConfig(
        env="cartpole", algo="ppo", num_envs=16, replicas=2, run_dir=str(tmp_path / "run")
    )
    with pytest.raises(ConfigError, match="hooks, sweeps and jobs are for runs with one replica"):
        train(config, hooks=[lambda recorder: None])
    with pytest.raises(ConfigError, match="make their environments themselves"):
        train(config, env=make_env("cartpole", 16))
    assert not (tmp_path / "run").exists()


def test_jobs_and_other_uses_of_a_trainer_have_one_process():
    with pytest.raises(ConfigError, match="a job is one process"):
        RunJob("job", long_config())
    with pytest.raises(ConfigError, match="This is done by one process, but replicas is 2"):
        Trainer(long_config())


@pytest.mark.parametrize(
    ("words", "problem"),
    [
        (["--replicas", "2", "--jobs", "3"], "--jobs is for many runs"),
        (["--replicas", "2", "--seeds", "3"], "--replicas is for a single run"),
        (["--executor", "ray"], "One run in several processes: --replicas"),
        (["--replicas", "2", "--min-replicas", "1"], "min_replicas is for executor = ray"),
        (["--seeds", "2", "--executor", "ray", "--min-replicas", "1"], "not for many runs"),
    ],
)
def test_flags_that_do_not_fit_are_refused(
    words: list[str], problem: str, capsys: pytest.CaptureFixture[str], tmp_path: Path
):
    arguments = ["train", "cartpole", "--algo", "ppo", "--run-dir", str(tmp_path / "run")]
    assert main([*arguments, *words]) == 2
    assert problem in " ".join(capsys.readouterr().err.split())
    assert not (tmp_path / "run").exists()


def test_an_environment_that_steps_by_itself_is_refused_before_a_folder_is_made(tmp_path: Path):
    words = ["gym:CartPole-v1", "--algo", "ppo", "--backend", "async", "--num-envs", "8"]
    command = [sys.executable, "-m", "briskrl", "train", *words, "--replicas", "2"]
    done = subprocess.run(
        [*command, "--run-dir", str(tmp_path / "run")],
        capture_output=True,
        text=True,
        timeout=PATIENCE_S,
        check=False,
    )
    assert done.returncode == 2
    assert "--replicas needs environments that step together" in done.stderr
    assert not (tmp_path / "run").exists()


def test_a_run_with_one_replica_does_not_load_the_code_for_several(tmp_path: Path):
    code = (
        "import sys; from briskrl import TrainConfig, train;"
        "train(TrainConfig(env='cartpole', algo='ppo', steps=2000, engine='fused',"
        f"run_dir={str(tmp_path / 'run')!r}));"
        "print([name for name in sys.modules if name.startswith('briskrl.cluster')])"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, timeout=PATIENCE_S, check=True
    )
    assert done.stdout.strip() == "[]"
