"""The `brisk tune` command."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from briskrl.cli.flags import clashes
from briskrl.cli.main import main
from briskrl.cli.train import _all_classes
from briskrl.training.resolve import load_config
from briskrl.tuning.config import TuneConfig
from tests.cli.conftest import SMALL, Brisk, environment

POOR = ("tune", "snake", *SMALL, "--engine", "torch", "--keep", "threads,overlap", "--fresh")


@pytest.fixture(autouse=True)
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Use the real kernel cache, and a temporary cache of results."""
    base = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
    elsewhere = tmp_path.parent / f"{tmp_path.name}-cache"
    elsewhere.mkdir()
    (elsewhere / "briskrl").mkdir()
    for found in (base / "briskrl").glob("kernels-*"):
        (elsewhere / "briskrl" / found.name).symlink_to(found)
    monkeypatch.setenv("XDG_CACHE_HOME", str(elsewhere))


def test_the_tuned_settings_are_written_to_a_config_file(brisk: Brisk, tmp_path: Path) -> None:
    done = brisk(*POOR, "--budget", "4")
    assert done.returncode == 0, done.stderr
    assert "times as fast, 95 % interval" in done.stdout
    assert "brisk train --config tuned-snake-dqn.toml" in done.stdout
    assert "proof" in done.stderr
    path = tmp_path / "tuned-snake-dqn.toml"
    config = load_config(path)
    assert config.engine == "fused"
    assert config.algo_config.net == (16,)
    assert path.read_text().startswith("# Made by: brisk tune snake")
    assert brisk("train", "--config", str(path), "--print-config").returncode == 0


def test_json_is_complete_and_a_run_folder_can_be_the_target(
    brisk: Brisk, tmp_path: Path, trained: tuple[Path, str]
) -> None:
    run = trained[0]
    before = {path: path.stat().st_mtime_ns for path in run.rglob("*")}
    done = brisk("tune", str(run), "--budget", "2", "--out", "a.toml", "--json")
    assert done.returncode == 0, done.stderr
    result = json.loads(done.stdout)
    assert result["out"] == "a.toml"
    assert 1 <= len(result["tried"]) <= result["points"]
    assert set(result["start"]) >= {"num_envs", "threads", "engine"}
    assert result["proven"] == (result["gain"] is not None and (result["gain"]["low"] or 0) > 1)
    written = load_config(tmp_path / "a.toml")
    assert written.num_envs == (result["best"] if result["proven"] else result["start"])["num_envs"]
    assert written.run_dir is None
    assert {path: path.stat().st_mtime_ns for path in run.rglob("*")} == before


def test_a_budget_that_is_too_short_changes_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    assert main([*POOR, "--budget", "0.001"]) == 0
    assert "The budget ended before" in capsys.readouterr().out
    assert load_config(tmp_path / "tuned-snake-dqn.toml").engine == "torch"


@pytest.mark.skipif(sys.platform == "win32", reason="sends SIGINT")
def test_an_interrupt_ends_with_the_best_so_far(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "briskrl", *POOR, "--budget", "300", "--json"]
    with subprocess.Popen(
        command,
        cwd=tmp_path,
        env=environment(),
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    ) as process:
        assert process.stderr is not None
        assert "scan" in process.stderr.readline()
        time.sleep(0.5)
        process.send_signal(signal.SIGINT)
        out, err = process.communicate(timeout=60)
    assert process.returncode == 130, err
    result = json.loads(out)
    assert result["interrupted"]
    assert result["seconds"] < 60
    assert (tmp_path / "tuned-snake-dqn.toml").exists()


def test_its_flags_do_not_clash_with_those_of_training() -> None:
    for cls in _all_classes():
        assert clashes([cls, TuneConfig]) == []


@pytest.mark.parametrize(
    ("args", "message"),
    [
        (["snek"], "snake"),
        (["snake", "--budget", "0"], "budget"),
        (["snake", "--objective", "fun"], "objective"),
        (["snake", "--keep", "lr"], "keep"),
        (["snake", "--also", "lr"], "also"),
        (["snake", "--bugdet", "3"], "--budget"),
        (["snake", "--out", "a.json"], ".toml"),
        (["snake", "--out", "missing/a.toml"], "no folder"),
        (["snake", "--out", "taken.toml"], "--force"),
        (["missing.toml"], "missing.toml"),
        (["snake", "--print-config"], "--print-config"),
        (["snake", "--overlap", "--engine", "torch"], "fused engine"),
    ],
)
def test_errors_are_one_sentence_and_leave_files_alone(
    args: list[str],
    message: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("taken.toml").write_text("precious")
    assert main(["tune", *args]) == 2
    assert message in capsys.readouterr().err
    assert [path.name for path in tmp_path.iterdir()] == ["taken.toml"]
    assert Path("taken.toml").read_text() == "precious"


def test_help_explains_what_is_kept(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["tune", "--help"]) == 0
    text = capsys.readouterr().out
    for word in ("--also", "--keep", "--budget", "update_steps", "num_envs", "remembered"):
        assert word in text
