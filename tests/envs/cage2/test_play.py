"""`brisk play` and `brisk train` with CAGE-2."""

from __future__ import annotations

from pathlib import Path

import pytest
from PIL import Image

from briskrl.cli.main import main


def test_play_prints_every_turn(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["play", "cage2", "--red", "bline", "--length", "3"]) == 0
    output = capsys.readouterr().out
    for step in range(4):
        assert f"step {step} of 3   red is B_line" in output
    assert "red    DiscoverRemoteSystems User (succeeded)" in output
    assert "blue   DecoyTomcat Enterprise0 (succeeded)" in output
    assert "over: score" in output


def test_play_writes_a_gif(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "network.gif"
    words = ("--player", "react-restore", "--length", "5", "--cell-px", "8", "--gif", str(path))
    assert main(["play", "cage2", *words]) == 0
    assert "6 frames" in capsys.readouterr().out
    with Image.open(path) as picture:
        assert picture.size == (320, 216)


def test_a_run_is_trained_scored_and_continued(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    run = str(tmp_path / "run")
    words = ("--algo", "ppo", "--steps", "4096", "--num-envs", "64", "--run-dir", run)
    settings = ("--edition", "competition", "--actions", "reduced", "--mask", "useful")
    assert main(["train", "cage2", *words, *settings, "--scan-memory", "--frames", "2"]) == 0
    assert main(["eval", run, "--suite", "cage2", "--episodes", "8"]) == 0
    assert "edition competition, 8 episodes per cell" in capsys.readouterr().out
    assert main(["resume", run, "--steps", "8192"]) == 0
