"""`--watch` serves the dashboard beside every command that trains."""

from __future__ import annotations

import re
import socket
from pathlib import Path

import pytest

from briskrl.cli.main import main

TABLE, NEWEST = "#/runs", "#/curves?follow=newest"
CARTPOLE = ("cartpole", "--steps", "512", "--num-envs", "8", "--net", "8", "--threads", "1")
WORKFLOW = """\
task = "ordered-visit"
num_envs = 8
total_episodes = 60
max_episodes = 30
eval_episodes = 8
final_eval_episodes = 8

[algo_config]
update_steps = 8
net = [8]
"""


def watched(capsys: pytest.CaptureFixture[str], *words: str) -> str:
    """What the page of a command shows first; the server has ended with the command."""
    main([*words, "--watch"])
    printed = capsys.readouterr()
    found = re.search(r"^dashboard: http://127\.0\.0\.1:(\d+)/(\S*)$", printed.out, re.MULTILINE)
    assert found, printed
    with socket.socket() as client:
        assert client.connect_ex(("127.0.0.1", int(found[1]))) != 0
    return found[2]


def test_a_run_that_is_resumed(
    capsys: pytest.CaptureFixture[str], trained: tuple[Path, str]
) -> None:
    assert watched(capsys, "resume", str(trained[0]), "--final-episodes", "0") == NEWEST


def test_seeds_and_sweeps(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    own = ("--algo", "ppo", "--seeds", "1")
    assert watched(capsys, "train", *CARTPOLE, *own, "--run-dir", str(tmp_path / "a")) == TABLE
    sweep = ("sweep", *CARTPOLE, *own, "--grid", "lr=1e-3", "--sweep-dir", str(tmp_path / "b"))
    assert watched(capsys, *sweep) == TABLE
    assert watched(capsys, "sweep", "resume", str(tmp_path / "b")) == TABLE


def test_runs_under_workflows(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    (tmp_path / "tiny.toml").write_text(WORKFLOW)
    run, tiny = str(tmp_path / "run"), str(tmp_path / "tiny.toml")
    one = ("workflow", "train", "--config", tiny, "--workflow", "3", "--run-dir", run)
    assert watched(capsys, *one) == TABLE
    assert watched(capsys, "workflow", "resume", run) == TABLE


@pytest.mark.parametrize(
    "words", [("resume", "RUN", "--steps", "-4"), ("sweep", "cartpole", "--trials", "x")]
)
def test_nothing_is_served_for_wrong_arguments(
    capsys: pytest.CaptureFixture[str], trained: tuple[Path, str], words: tuple[str, ...]
) -> None:
    given = [str(trained[0]) if word == "RUN" else word for word in words]
    assert main([*given, "--watch"]) == 2
    printed = capsys.readouterr()
    assert "dashboard" not in printed.out + printed.err
