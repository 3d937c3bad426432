"""A run continues with another number of replicas: what it has saved is shared, nothing is lost."""

from __future__ import annotations

import shutil
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from briskrl.cli.main import main
from briskrl.core.errors import ConfigError, InvalidStateError
from briskrl.core.types import Array, State
from briskrl.envs.division import divide_envs
from briskrl.memory.division import divide_chunks
from briskrl.training.config import TrainConfig
from briskrl.training.loop import train
from briskrl.training.replicas.names import count_replicas
from briskrl.training.replicas.resize import resize
from briskrl.training.resolve import load_run_config
from briskrl.training.storage.checkpoint import (
    Checkpointer,
    RunState,
    SavedRun,
    list_checkpoints,
    read_newest,
)
from briskrl.training.storage.run_dir import RunDir
from tests.training.runs import small_config

CASES: list[tuple[str, str, dict[str, Any]]] = [
    # The rollout in progress has one step: 190 times 16 environments.
    ("snake", "ppo", {"algo_config": {"update_steps": 9, "reuse": 1}}),
    ("gym:Pendulum-v1", "a2c", {"env_config": {"backend": "sync"}}),
    ("cage2", "rainbow", {"algo_config": {"buffer_size": 1000}}),
    (
        "gym:CartPole-v1",
        "per-dqn",
        {"algo_config": {"normalize_obs": True}, "env_config": {"backend": "sync"}},
    ),
]


def saved_run(folder: Path, env: str, algo: str, options: dict[str, Any]) -> TrainConfig:
    train(small_config(folder, algo, env=env, steps=3040, engine="torch", **options))
    return load_run_config(folder / "config.toml")


def divided(folder: Path, config: TrainConfig, replicas: int) -> SavedRun:
    with RunDir.open(folder).lock() as run:
        resize(run, replace(config, replicas=replicas))
    return read_newest(folder / "checkpoints")


def chunks(saved: SavedRun) -> dict[str, dict[str, Array]]:
    return {name: saved.read_chunk(name) for name in saved.manifest.chunks}


def assert_equal(found: dict[str, Array], expected: dict[str, Array]) -> None:
    assert found.keys() == expected.keys()
    for name, array in expected.items():
        assert found[name].dtype == array.dtype
        np.testing.assert_array_equal(found[name], array, err_msg=name)


@pytest.mark.parametrize(("env", "algo", "options"), CASES, ids=[case[1] for case in CASES])
def test_a_run_divided_and_put_together_again_is_the_same_to_the_bit(
    env: str, algo: str, options: dict[str, Any], tmp_path: Path
):
    folder = tmp_path / "run"
    config = saved_run(folder, env, algo, options)
    before = read_newest(folder / "checkpoints")
    contents = chunks(before)
    for replicas in (2, 8):
        parts = divided(folder, config, replicas)
        assert count_replicas(parts.states) == replicas
        assert len(parts.manifest.chunks) == replicas * len(contents)
        own = parts.states[f"replica{replicas - 1}.collector"].arrays["obs"]
        whole = before.states["collector"].arrays["obs"]
        np.testing.assert_array_equal(own, whole[-len(whole) // replicas :])
    after = divided(folder, config, 1)
    assert after.counters == before.counters
    assert after.states.keys() == before.states.keys()
    for name, state in before.states.items():
        assert_equal(after.states[name].arrays, state.arrays)
        assert after.states[name].scalars == state.scalars
    for name, arrays in chunks(after).items():
        assert_equal(arrays, contents[name])


def test_new_replicas_have_random_streams_of_their_own_which_the_step_decides(tmp_path: Path):
    config = saved_run(tmp_path / "run", "snake", "ppo", {})
    shutil.copytree(tmp_path / "run", tmp_path / "again")
    parts = divided(tmp_path / "run", config, 4)
    streams = [
        parts.states[f"{name}bookkeeping"].scalars["streams"]
        for name in ("", *(f"replica{rank}." for rank in (1, 2, 3)))
    ]
    own = [
        streams[0]["sample"],
        *(streams[rank][f"sample of replica {rank}"] for rank in (1, 2, 3)),
    ]
    assert len({str(place) for place in own}) == 4
    again = divided(tmp_path / "again", config, 4)
    assert again.manifest.files == parts.manifest.files


def test_nothing_is_written_for_the_same_number(tmp_path: Path):
    config = saved_run(tmp_path / "run", "snake", "ppo", {})
    before = list_checkpoints(tmp_path / "run" / "checkpoints")
    divided(tmp_path / "run", config, 1)
    assert list_checkpoints(tmp_path / "run" / "checkpoints") == before


@pytest.mark.parametrize(
    ("algo", "words", "problem"),
    [
        ("ppo", ["--replicas", "3"], "num_envs 16 is not a multiple of replicas 3"),
        ("ppo", ["--replicas", "0"], "replicas"),
        ("ppo", ["--replicas", "two"], "--replicas"),
        ("dqn", ["--replicas", "16"], "batch_size is 8"),
        ("pqn", ["--replicas", "2"], "'pqn' cannot be trained by replicas"),
    ],
)
def test_an_impossible_number_is_refused_and_nothing_is_written(
    algo: str, words: list[str], problem: str, tmp_path: Path, capfd: pytest.CaptureFixture[str]
):
    folder = tmp_path / "run"
    saved_run(folder, "snake", algo, {"algo_config": {"batch_size": 8}} if algo == "dqn" else {})
    before = [path.read_bytes() for path in sorted(folder.rglob("*")) if path.is_file()]
    assert main(["resume", str(folder), "--steps", "6000", *words]) == 2
    assert problem in " ".join(capfd.readouterr().err.split())
    assert [path.read_bytes() for path in sorted(folder.rglob("*")) if path.is_file()] == before


def test_final_observations_stay_with_their_transitions():
    rows, num_envs = 3, 2
    parts = []
    for rank in range(2):
        slots = np.array([1, 4]) if rank else np.array([3])
        flags = np.zeros(rows * num_envs, np.uint8)
        flags[slots] = 2
        reward = np.arange(rows * num_envs, dtype=np.float32) + 10 * rank
        finals = {"final_slot": slots, "final_obs": reward[slots, None]}
        parts.append({"reward": reward, "flags": flags, **finals})
    (whole,) = divide_chunks(parts, num_envs, 1)
    np.testing.assert_array_equal(whole["reward"][:4], [0, 1, 10, 11])
    np.testing.assert_array_equal(np.flatnonzero(whole["flags"]), whole["final_slot"])
    np.testing.assert_array_equal(whole["final_obs"][:, 0], whole["reward"][whole["final_slot"]])
    singles = divide_chunks([whole], 4, 4)
    assert ["final_slot" in single for single in singles] == [False, True, True, True]


def test_environments_without_a_row_each_are_refused():
    with pytest.raises(ConfigError, match="its array 'shared' does not have a row for each"):
        divide_envs([{"cells": np.zeros((4, 3)), "shared": np.zeros(7)}], 4, 2)


def test_statistics_of_observations_count_once_and_networks_between_averages_become_means():
    from briskrl.algos.dqn.division import divide_states

    def state(mean: float, weight: float) -> dict[str, State]:
        recent = {"count": np.array(2.0), "mean": np.array([mean]), "squares": np.array([0.0])}
        noise = np.zeros(5056, np.uint8)
        optim = {f"recent.obs.{name}": array for name, array in recent.items()}
        return {
            "model": State({"layer": np.array([weight], np.float32)}),
            "optim": State({**optim, "noise": noise, "acting_noise": noise}),
        }

    first, second, third = divide_states([state(1.0, 4.0), state(3.0, 5.0)], 3, seed=1)
    assert first["optim"].arrays["recent.obs.count"] == 4
    assert first["optim"].arrays["recent.obs.mean"] == 2
    assert first["optim"].arrays["recent.obs.squares"] == 4
    assert second["optim"].arrays["recent.obs.count"] == 0
    for part in (first, second, third):
        np.testing.assert_array_equal(part["model"].arrays["layer"], np.array([4.5], np.float32))
    assert third["optim"].arrays["noise"].any()


def test_a_checkpoint_that_lacks_a_replica_is_refused(tmp_path: Path):
    config = saved_run(tmp_path / "run", "snake", "ppo", {})
    whole = divided(tmp_path / "run", config, 2)
    checkpointer = Checkpointer(tmp_path / "run" / "checkpoints", 1)
    states = {n: s for n, s in whole.states.items() if n != "replica1.collector"}
    checkpointer.save(whole.step, RunState(states, whole.counters))
    with pytest.raises(InvalidStateError, match="for 1 replicas cannot be restored"):
        divided(tmp_path / "run", config, 1)
