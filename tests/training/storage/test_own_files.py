"""A run writes inside its folder only, wherever links in it point."""

from __future__ import annotations

import os
from pathlib import Path

import numpy as np
import pytest

from briskrl.core.errors import BriskError, RunFolderError
from briskrl.core.types import State
from briskrl.training.storage.atomic_files import replace, write_new
from briskrl.training.storage.checkpoint import Checkpointer, read_newest
from briskrl.training.storage.metrics import MetricLog
from briskrl.training.storage.own_files import open_in_place, read_regular
from briskrl.training.storage.run_dir import RunDir
from tests.training.storage.fake_memory import ChunkMemory, state_at

SECRET = b"bytes of somebody else\n" * 40


def create(path: Path) -> RunDir:
    return RunDir.create(path, env="snake", algo="dqn", seed=0, config_toml='env = "snake"\n')


@pytest.fixture
def victim(tmp_path):
    file = tmp_path / "victim"
    file.write_bytes(SECRET)
    return file


@pytest.fixture
def run(tmp_path):
    create(tmp_path / "run").close()
    return tmp_path / "run"


@pytest.mark.parametrize("make", [os.symlink, os.link], ids=["symbolic", "hard"])
@pytest.mark.parametrize("name", ["lock", "metrics.jsonl", "episodes.csv", "phases.jsonl"])
def test_a_linked_file_that_would_be_written_in_place_is_refused(run, victim, name, make):
    (run / name).unlink(missing_ok=True)
    make(victim, run / name)
    with pytest.raises(RunFolderError, match=rf"{name} is a (hard )?link"):
        RunDir.open(run).lock()
    assert victim.read_bytes() == SECRET


@pytest.mark.parametrize("name", ["metrics.jsonl", "episodes.csv", "phases.jsonl"])
def test_a_log_that_became_a_link_after_the_check_is_not_opened(run, victim, name):
    with RunDir.open(run).lock():
        (run / name).symlink_to(victim)
        with pytest.raises(RunFolderError, match=f"{name} is a link"):
            MetricLog(run, flush_s=1)
    assert victim.read_bytes() == SECRET


@pytest.mark.parametrize("name", ["checkpoints", "policy", "tensorboard"])
def test_a_linked_folder_is_refused(run, tmp_path, name):
    outside = tmp_path / "outside"
    outside.mkdir()
    for leftover in (".tmp-model.safetensors", ".tmp-anything"):
        (outside / leftover).write_bytes(SECRET)
    (run / name).symlink_to(outside)
    with pytest.raises(RunFolderError, match=f"{name} is a link"):
        RunDir.open(run).lock()
    if name == "checkpoints":
        with pytest.raises(RunFolderError, match="is a link"):
            Checkpointer(run / name, 2)
    if name == "policy":
        with pytest.raises(RunFolderError, match="is a link"):
            RunDir.open(run).save_policy(State({"w": np.ones(3)}), {})
    assert {path.name: path.read_bytes() for path in outside.iterdir()} == {
        ".tmp-model.safetensors": SECRET,
        ".tmp-anything": SECRET,
    }


def test_checkpoints_that_become_a_link_during_the_run_are_not_written(run, tmp_path):
    checkpointer, memory = Checkpointer(run / "checkpoints", 2), ChunkMemory()
    checkpointer.save(1, state_at(1, memory))
    (run / "checkpoints").rename(tmp_path / "outside")
    (run / "checkpoints").symlink_to(tmp_path / "outside")
    before = sorted(os.listdir(tmp_path / "outside"))
    with pytest.raises(RunFolderError, match="checkpoints is a link"):
        checkpointer.save(2, state_at(2, memory))
    assert sorted(os.listdir(tmp_path / "outside")) == before


@pytest.mark.parametrize("durable", [True, False])
@pytest.mark.parametrize("name", [".tmp-status.json", "status.json"])
def test_replacing_a_file_replaces_links_and_not_their_targets(tmp_path, victim, name, durable):
    (tmp_path / name).symlink_to(victim)
    replace(tmp_path / "status.json", b"new", durable=durable)
    assert victim.read_bytes() == SECRET
    assert not (tmp_path / "status.json").is_symlink()
    assert (tmp_path / "status.json").read_bytes() == b"new"
    assert sorted(os.listdir(tmp_path)) == ["status.json", "victim"]


def test_new_files_are_created_exclusively(tmp_path, victim):
    (tmp_path / "link").symlink_to(victim)
    (tmp_path / "dangling").symlink_to(tmp_path / "nowhere")
    for name in ("link", "dangling"):
        with pytest.raises(FileExistsError):
            write_new(tmp_path / name, [b"new"])
    assert victim.read_bytes() == SECRET
    assert not (tmp_path / "nowhere").exists()


@pytest.mark.parametrize("target", ["file", "folder", "nowhere"])
@pytest.mark.parametrize("name", [".tmp-LATEST", ".tmp-step_000000000002", "LATEST"])
def test_links_among_the_checkpoints_are_replaced(tmp_path, name, target):
    folder, memory = tmp_path / "checkpoints", ChunkMemory()
    Checkpointer(folder, 2).save(1, state_at(1, memory))
    (tmp_path / "folder").mkdir()
    for file in (tmp_path / "file", tmp_path / "folder" / "inside"):
        file.write_bytes(SECRET)
    (folder / name).unlink(missing_ok=True)
    (folder / name).symlink_to(tmp_path / target)
    Checkpointer(folder, 2).save(2, state_at(2, memory))
    assert read_newest(folder).step == 2
    assert (folder / "LATEST").read_text() == "step_000000000002\n"
    assert not any(path.is_symlink() for path in folder.iterdir())
    assert (tmp_path / "file").read_bytes() == SECRET
    assert (tmp_path / "folder" / "inside").read_bytes() == SECRET
    assert not (tmp_path / "nowhere").exists()


def test_an_old_checkpoint_that_is_a_link_is_removed_without_its_target(tmp_path):
    folder, memory = tmp_path / "checkpoints", ChunkMemory()
    checkpointer = Checkpointer(folder, 1)
    checkpointer.save(1, state_at(1, memory))
    (folder / "step_000000000001").rename(tmp_path / "kept")
    (folder / "step_000000000001").symlink_to(tmp_path / "kept")
    checkpointer.save(2, state_at(2, memory))
    assert sorted(os.listdir(folder)) == ["LATEST", "step_000000000002"]
    assert (tmp_path / "kept" / "MANIFEST.json").is_file()


NAMES = ["model.safetensors", "policy.json", ".tmp-model.safetensors", ".tmp-policy.json"]


@pytest.mark.parametrize("dangling", [False, True])
@pytest.mark.parametrize("name", NAMES)
def test_links_in_the_policy_folder_are_replaced(run, victim, name, dangling):
    folder = RunDir.open(run)
    folder.save_policy(State({"w": np.ones(3)}), {"value": 1})
    (folder.policy / name).unlink(missing_ok=True)
    (folder.policy / name).symlink_to(run / "nowhere" if dangling else victim)
    folder.save_policy(State({"w": np.full(3, 2.0)}), {"value": 2})
    state, description = folder.load_policy_files()
    assert (state.arrays["w"].tolist(), description) == ([2.0, 2.0, 2.0], {"value": 2})
    assert sorted(os.listdir(folder.policy)) == ["model.safetensors", "policy.json"]
    assert not any(path.is_symlink() for path in folder.policy.iterdir())
    assert victim.read_bytes() == SECRET
    assert not (run / "nowhere").exists()


@pytest.mark.parametrize("name", ["lock", "metrics.jsonl", "checkpoints"])
def test_what_is_neither_file_nor_folder_is_refused_without_waiting(run, name):
    (run / name).unlink(missing_ok=True)
    os.mkfifo(run / name)
    with pytest.raises(RunFolderError, match=rf"{name} is not a (regular file|folder)"):
        RunDir.open(run).lock()


def test_a_folder_in_place_of_a_log_is_refused(run):
    (run / "episodes.csv").mkdir()
    with pytest.raises(RunFolderError, match=r"episodes\.csv is not a regular file"):
        RunDir.open(run).lock()
    with pytest.raises(BriskError, match=r"episodes\.csv"):
        open_in_place(run / "episodes.csv")


def test_reading_a_pipe_raises_instead_of_waiting(tmp_path):
    os.mkfifo(tmp_path / "pipe")
    with pytest.raises(OSError, match="Not a regular file"):
        read_regular(tmp_path / "pipe")
    (tmp_path / "large").write_bytes(b"12345")
    assert read_regular(tmp_path / "large", limit=5) == b"12345"
    with pytest.raises(ValueError, match="more than 4 bytes"):
        read_regular(tmp_path / "large", limit=4)
