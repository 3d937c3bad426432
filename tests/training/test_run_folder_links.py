"""A resume leaves the targets of links in its run folder as they are, byte by byte."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

import pytest

from briskrl.core.errors import ConfigError, RunFolderError
from briskrl.training.evaluate import load_policy
from briskrl.training.loop import resume, train
from tests.training.runs import policy_hash, small_config

REFUSED = [
    "lock",
    "metrics.jsonl",
    "episodes.csv",
    "phases.jsonl",
    "checkpoints",
    "policy",
    "tensorboard",
]
REPLACED = [
    "config.toml",
    "status.json",
    ".tmp-config.toml",
    ".tmp-status.json",
    ".tmp-meta.json",
    "checkpoints/LATEST",
    "checkpoints/.tmp-LATEST",
    "checkpoints/.tmp-step_000000000480",
    "policy/model.safetensors",
    "policy/policy.json",
    "policy/.tmp-model.safetensors",
    "policy/.tmp-policy.json",
]


@pytest.fixture(scope="module")
def stopped(tmp_path_factory):
    folder = tmp_path_factory.mktemp("stopped")
    config = {"warmup": False, "checkpoint_steps": 160}
    train(small_config(folder / "run", steps=320, **config))
    train(small_config(folder / "whole", steps=480, **config))
    return folder


@pytest.fixture
def run(stopped, tmp_path):
    shutil.copytree(stopped / "run", tmp_path / "run")
    return tmp_path / "run"


def link_out(path: Path, outside: Path) -> dict[Path, bytes]:
    """Move what is at `path` outside and link to it; returns the files outside."""
    outside.mkdir()
    target = outside / "target"
    if os.path.lexists(path):
        path.rename(target)
    elif path.name == "tensorboard":
        target.mkdir()
        (target / ".tmp-leftover").write_bytes(b"leftover of somebody else")
    else:
        target.write_bytes(b"bytes of somebody else")
    path.symlink_to(target)
    return content(outside)


def content(folder: Path) -> dict[Path, bytes]:
    return {path: path.read_bytes() for path in folder.rglob("*") if path.is_file()}


@pytest.mark.parametrize("name", REFUSED)
def test_a_resume_refuses_links_that_it_would_write_through(run, tmp_path, name):
    before = link_out(run / name, tmp_path / "outside")
    inside = content(run)
    with pytest.raises(RunFolderError, match=f"{name} is a link"):
        resume(run, steps=480)
    assert content(tmp_path / "outside") == before
    assert content(run) == inside


@pytest.mark.parametrize("name", REPLACED)
def test_a_resume_replaces_links_to_files_that_it_replaces(stopped, run, tmp_path, name):
    before = link_out(run / name, tmp_path / "outside")
    resume(run, steps=480)
    assert content(tmp_path / "outside") == before
    assert not (run / name).is_symlink()
    assert policy_hash(run) == policy_hash(stopped / "whole")


def test_a_run_folder_behind_a_link_resumes_and_plays(stopped, run):
    latest = run.with_name("latest")
    latest.symlink_to(run)
    resume(latest, steps=480)
    assert policy_hash(run) == policy_hash(stopped / "whole")
    assert load_policy(latest).env == "snake"
    with pytest.raises(ConfigError, match="reached its budget"):
        resume(latest)
