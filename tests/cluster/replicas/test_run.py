"""Runs with replicas: the same bits whatever happens to their processes."""

from __future__ import annotations

import json
import random
import shutil
import signal
import time
from pathlib import Path

import psutil
import pytest

from briskrl.training.loop import train as train_here
from tests.cluster.process_tree import listening_sockets
from tests.cluster.replicas.replica_runs import (
    content,
    kill,
    long_config,
    newest,
    resume,
    train,
)
from tests.training.runs import small_config


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """An uninterrupted run."""
    folder = tmp_path_factory.mktemp("whole") / "run"
    command = train(long_config(), folder, "--json")
    command.wait_for_checkpoint("")
    replicas = [process.pid for process in command.replicas()]
    assert len(replicas) == 2
    sockets = listening_sockets(replicas)
    # gloo listens on 127.0.0.1, written backwards in hexadecimal.
    assert sockets
    assert all(line.split()[1].startswith("0100007F:") for line in sockets)
    assert not listening_sockets([command.process.pid])
    code, text = command.wait()
    assert code == 0, text
    result = json.loads(text.splitlines()[0])
    assert result["env_steps"] == 120_000
    assert result["phases"]["average"] > 0
    return folder


def test_a_run_survives_the_loss_of_a_replica_of_its_driver_and_a_stop(whole: Path, tmp_path: Path):
    folder = tmp_path / "run"
    command = train(long_config(), folder)
    command.wait_for_checkpoint("")
    kill(command.replicas()[1])
    command.wait_for_checkpoint(newest(folder))
    # Twice, because the kill and the first look may have met different checkpoints.
    command.wait_for_checkpoint(newest(folder))
    left = command.replicas()
    command.process.kill()
    assert "was killed by SIGKILL; all replicas continue" in command.wait()[1]
    _, alive = psutil.wait_procs(left, timeout=20)
    assert not alive

    command = resume(folder)
    command.wait_for_checkpoint(newest(folder))
    command.process.send_signal(signal.SIGTERM)
    code, text = command.wait()
    assert code == 143, text
    assert f"resume {folder}" in text

    code, text = resume(folder).wait()
    assert code == 0, text
    assert content(folder) == content(whole)


def copied(run: Path, folder: Path) -> Path:
    shutil.copytree(run, folder)
    return folder


def resumed(folders: list[Path], replicas: int, steps: int) -> None:
    """Continue runs with another number of replicas, all at the same time."""
    words = ("--replicas", str(replicas), "--steps", str(steps))
    for command in [resume(folder, *words) for folder in folders]:
        code, text = command.wait()
        assert code == 0, text
        assert f"replicas: {replicas} instead of {3 - replicas}" in text


def test_a_run_continues_with_other_numbers_of_replicas_and_the_same_bits_each_time(
    whole: Path, tmp_path: Path
):
    folders = [copied(whole, tmp_path / name) for name in ("first", "second")]
    resumed(folders, 1, 122_000)
    resumed(folders, 2, 124_000)
    assert content(folders[0]) == content(folders[1])
    # Nothing of what was recorded before is lost.
    assert content(folders[0])[1].startswith(content(whole)[1])
    sessions = json.loads((folders[0] / "meta.json").read_text())["sessions"]
    changes = [session.get("changes", {}).get("replicas") for session in sessions]
    assert changes == [None, [2, 1], [1, 2]]


def test_value_networks_continue_with_other_numbers_of_replicas(tmp_path: Path):
    first = tmp_path / "first"
    train_here(small_config(first, "per-dqn", env="cartpole", engine="fused", steps=4000))
    folders = [first, copied(first, tmp_path / "second")]
    resumed(folders, 2, 6000)
    assert content(folders[0]) == content(folders[1])


@pytest.mark.slow
@pytest.mark.parametrize("rank", [0, 1])
def test_a_replica_that_hangs_is_replaced(whole: Path, tmp_path: Path, rank: int):
    folder = tmp_path / "run"
    command = train(long_config(), folder, "--job-timeout", "20")
    command.wait_for_checkpoint("")
    command.replicas()[rank].suspend()
    code, text = command.wait()
    assert code == 0, text
    assert f"Replica {1 - rank} has lost the others (no answer in time)" in text
    assert content(folder) == content(whole)


@pytest.mark.slow
@pytest.mark.parametrize("engine", ["fused", "torch"])
def test_replicas_killed_at_ten_random_moments_end_with_the_same_bits(tmp_path: Path, engine: str):
    options = {"engine": engine, "steps": 1_000_000 if engine == "fused" else 300_000}
    code, text = train(long_config(**options), tmp_path / "whole").wait()
    assert code == 0, text
    moments, folder = random.Random(engine), tmp_path / "killed"
    command = train(long_config(**options), folder)
    for _ in range(10):
        command.wait_for_checkpoint(newest(folder))
        time.sleep(moments.uniform(0, 0.1))
        if replicas := command.replicas():
            kill(moments.choice(replicas))
    code, text = command.wait()
    assert code == 0, text
    assert text.count("all replicas continue") >= 5
    assert content(folder) == content(tmp_path / "whole")
