"""`brisk doctor`: help, errors, interrupts and files."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from briskrl.cli.main import main
from tests.cli.conftest import environment

QUICK = ["--num-envs", "32", "--net", "16", "--budget", "5"]


def test_help_has_examples_and_options(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["doctor", "--help"]) == 0
    text = capsys.readouterr().out
    assert "examples:" in text
    assert "--apply-all" in text


@pytest.mark.parametrize(
    ("args", "message"),
    [
        (["snake", "--budget", "1"], "too short"),
        (["snake", "--budget", "nan"], "too short"),
        (["snaek"], "snake"),
        (["snake", "--no-such-flag"], "Unknown flag"),
        (["legacy", "--algo", "dqn"], "no options"),
        (["legacy", "--apply"], "no config to write"),
        (["snake", "--html", "nowhere/page.html"], "no folder"),
        (["missing.toml"], "missing.toml"),
        (["snake", "--print-config"], "brisk train"),
        (["snake", "--profile", "gprof"], "cprofile"),
    ],
)
def test_errors_are_one_sentence_and_leave_no_files(
    args: list[str],
    message: str,
    capsys: pytest.CaptureFixture[str],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.chdir(tmp_path)
    assert main(["doctor", *args]) == 2
    assert message in capsys.readouterr().err
    assert list(tmp_path.iterdir()) == []


def test_existing_files_are_not_overwritten(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    page = tmp_path / "page.html"
    page.write_text("mine")
    assert main(["doctor", "snake", *QUICK, "--html", str(page)]) == 2
    assert "--force" in capsys.readouterr().err
    assert page.read_text() == "mine"


def test_a_report_as_json_and_as_a_page(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    page = tmp_path / "page.html"
    assert main(["doctor", "snake", *QUICK, "--json", "--html", str(page)]) == 0
    report = json.loads(capsys.readouterr().out)
    assert report["target"] == "snake"
    assert report["speed"]["steps_per_s"] > 0
    assert {"phases", "findings", "outcomes", "coverage", "history"} <= set(report)
    assert page.read_text().startswith("<!DOCTYPE html>")


def test_ctrl_c_gives_a_partial_report() -> None:
    command = [sys.executable, "-m", "briskrl", "doctor", "snake", "--num-envs", "32", "--json"]
    pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
    with subprocess.Popen(command, **pipes, text=True, bufsize=1, env=environment()) as process:
        assert process.stderr is not None
        for line in process.stderr:
            if "observing" in line:
                break
        time.sleep(2)
        process.send_signal(signal.SIGINT)
        out, _ = process.communicate(timeout=60)
    assert process.returncode == 130
    report = json.loads(out)
    assert report["interrupted"]
    assert report["speed"]["steps_per_s"] > 0
