"""`brisk workflow` with an environment and a task of the user, and its exit codes."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest

from briskrl.cli.main import main
from briskrl.workflows.run.tables import read_table
from tests.cli.conftest import ROOT, Brisk
from tests.docs.test_code_blocks import blocks_of

PAGE = ROOT / "docs" / "how-to" / "own-workflow.md"
SHORT = (
    *("--num-envs", "8", "--total-episodes", "200", "--warm-start", "none"),
    *("--max-episodes", "2", "--eval-episodes", "8", "--final-eval-episodes", "8"),
    *("--update-steps", "10", "--net", "16", "--max-workflows", "3", "--backend", "sync"),
)
BREAKING = (
    *("--task", "gym:brisktest/Machines2-v0", "--task-module"),
    *("tests.workflows.run.many_tasks:breaking", "--plain-ppo", "no"),
)


@pytest.fixture
def subnets(tmp_path: Path) -> None:
    """The file of the documentation."""
    (block,) = [block for block in blocks_of(PAGE) if block.title == "subnets.py"]
    (tmp_path / "subnets.py").write_text(block.code)


def test_a_task_of_the_user_is_searched_and_resumed(brisk: Brisk, subnets: None, tmp_path: Path):
    task = ("--task", "gym:Subnets-v0", "--task-module", "subnets.py:make_task")
    done = brisk(
        *("workflow", "search", *task, *SHORT, "--run-dir", "run", "--infeasible", "ignore"),
        "--json",
    )
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout)
    assert found["task"] == "gym:Subnets-v0"
    assert found["evaluated"] == 3
    assert sorted(found["best"]["workflow"].split(">")) == ["dmz", "office", "plant"]
    rows = read_table(tmp_path / "run" / "workflows.csv")
    # The well-known workflow of the task is tried first.
    assert rows[0]["workflow"] == "plant>dmz>office"
    again = brisk("workflow", "resume", "run", "--json")
    assert again.returncode == 0, again.stderr
    assert json.loads(again.stdout)["best"] == found["best"]


def test_a_search_without_an_obeyed_workflow_exits_with_3(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
):
    monkeypatch.chdir(tmp_path)
    asleep = ("--task", "cage2", "--response-prob", "0", "--length", "10", "--plain-ppo", "no")
    short = SHORT[: SHORT.index("--backend")]
    assert main(["workflow", "search", *asleep, *short, "--run-dir", "run", "--json"]) == 3
    best = json.loads(capfd.readouterr().out)["best"]
    assert (best["feasible"], best["compliance"]) == (False, None)
    assert json.loads((tmp_path / "run" / "best.json").read_text())["best"] == best
    assert len(read_table(tmp_path / "run" / "workflows.csv")) == 3


def test_failed_jobs_end_a_search_with_4_and_name_the_cause(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
):
    monkeypatch.chdir(tmp_path)
    assert main(["workflow", "search", *BREAKING, *SHORT, "--run-dir", "run"]) == 4
    printed = capfd.readouterr().out
    assert "first failure" in printed
    assert "the sensor is gone" in printed


def test_without_ray_the_extra_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
):
    monkeypatch.chdir(tmp_path)
    # What an import of a package that is not installed does.
    monkeypatch.setitem(sys.modules, "ray", None)
    words = ("workflow", "search", "--executor", "ray", "--parallel-workflows", "2")
    assert main([*words, "--run-dir", "run"]) == 2
    assert "pip install 'briskrl[ray]'" in capfd.readouterr().err
    assert not (tmp_path / "run").exists()
