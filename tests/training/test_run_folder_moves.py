"""Run folders that were moved, resumed many times, or lost a checkpoint."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

import pytest

from briskrl.core.errors import RunFolderError
from briskrl.training.evaluate import evaluate
from briskrl.training.loop import resume, train
from briskrl.training.storage.checkpoint import list_checkpoints
from tests.training.runs import policy_hash, small_config

LOGS = ("metrics.jsonl", "episodes.csv", "phases.jsonl")


def logs(run: Path) -> dict[str, bytes]:
    return {name: (run / name).read_bytes() for name in LOGS}


@pytest.mark.parametrize("preset", ["dqn", "per-dqn"])
def test_ten_resumes_in_a_row_end_with_the_bits_of_one_run(tmp_path, preset):
    config = {"preset": preset, "warmup": False}
    train(small_config(tmp_path / "whole", steps=1760, **config))
    train(small_config(tmp_path / "parts", steps=160, **config))
    for part in range(2, 12):
        resume(tmp_path / "parts", steps=160 * part)
    assert policy_hash(tmp_path / "parts") == policy_hash(tmp_path / "whole")
    episodes = [(tmp_path / name / "episodes.csv").read_bytes() for name in ("whole", "parts")]
    assert episodes[0] == episodes[1]


@pytest.fixture(scope="module")
def stopped(tmp_path_factory):
    folder = tmp_path_factory.mktemp("stopped")
    config = {"warmup": False, "checkpoint_steps": 160}
    train(small_config(folder / "run", steps=320, **config))
    train(small_config(folder / "whole", steps=640, **config))
    return folder


@pytest.fixture
def run(stopped, tmp_path):
    return Path(shutil.copytree(stopped / "run", tmp_path / "run"))


def test_a_run_folder_that_is_moved_and_renamed_resumes_bit_identically(
    stopped, run, tmp_path, monkeypatch
):
    renamed = run.rename(tmp_path / "another name é")
    resume(renamed, steps=480)
    (tmp_path / "deep" / "place").mkdir(parents=True)
    moved = renamed.rename(tmp_path / "deep" / "place" / "run")
    monkeypatch.chdir(moved.parent)
    result = resume("run", steps=640)
    assert result.run_dir == "run"
    assert policy_hash(moved) == policy_hash(stopped / "whole")
    assert (moved / "episodes.csv").read_bytes() == (
        stopped / "whole" / "episodes.csv"
    ).read_bytes()
    assert evaluate(".//run", episodes=3).episodes == 3
    assert sorted(os.listdir(tmp_path)) == ["deep"]


@pytest.mark.parametrize("lost", ["newest", "all", "with LATEST", "folder"])
def test_a_resume_without_its_newest_checkpoint_is_refused_and_keeps_the_logs(run, lost):
    checkpoints = run / "checkpoints"
    # A torn last line, as a killed writer leaves it, stays as well.
    with (run / "metrics.jsonl").open("ab") as file:
        file.write(b'{"env_steps":3')
    before = logs(run)
    for path in list_checkpoints(checkpoints)[: 1 if lost == "newest" else None]:
        shutil.rmtree(path)
    if lost in ("with LATEST", "folder"):
        (checkpoints / "LATEST").unlink()
    if lost == "folder":
        checkpoints.rmdir()
    for _ in range(2):
        with pytest.raises(RunFolderError, match=r"gone.*Restore"):
            resume(run, steps=640)
        assert logs(run) == before
    assert evaluate(run, episodes=3).episodes == 3


def test_deleting_latest_goes_back_to_the_checkpoint_before(stopped, run):
    checkpoints = run / "checkpoints"
    shutil.rmtree(list_checkpoints(checkpoints)[0])
    with pytest.raises(RunFolderError, match=r"delete .*LATEST to go back to step_000000000160"):
        resume(run, steps=640)
    (checkpoints / "LATEST").unlink()
    resume(run, steps=640)
    assert policy_hash(run) == policy_hash(stopped / "whole")


def test_a_resume_of_damaged_checkpoints_only_keeps_the_logs(run):
    for path in list_checkpoints(run / "checkpoints"):
        (path / "state.json").write_bytes(b"{")
    with (run / "episodes.csv").open("ab") as file:
        file.write(b"320,1,2")
    before = logs(run)
    with pytest.raises(RunFolderError, match="No checkpoint"):
        resume(run, steps=640)
    assert logs(run) == before


@pytest.mark.parametrize("content", [b"", b"\0\0\0", b"\xff\xfe", b"step_x\n", b"step_1" * 99])
def test_a_damaged_latest_does_not_stop_a_resume(stopped, run, content):
    (run / "checkpoints" / "LATEST").write_bytes(content)
    resume(run, steps=640)
    assert policy_hash(run) == policy_hash(stopped / "whole")
