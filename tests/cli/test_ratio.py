"""`brisk bench ratio` through the real command."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from briskrl.bench.ratio import RatioBench
from briskrl.cli.flags import clashes
from briskrl.cli.main import main
from briskrl.cli.train import _all_classes
from tests.cli.conftest import SMALL, Brisk

TINY = ("--presets", "debug,quality", "--points", "2", "--games", "4", "--steps", "1200")


def test_a_study_prints_a_table_and_continues_from_its_file(brisk: Brisk, tmp_path: Path) -> None:
    words = ("bench", "ratio", "snake", "--seeds", "2", *TINY, *SMALL)
    words += ("--results", "runs.jsonl", "--plot", "runs.svg")
    done = brisk(*words)
    assert done.returncode == 0, done.stderr
    assert done.stderr.count("seed") == 4
    title, header, debug, quality = done.stdout.splitlines()
    assert title.startswith("dqn on snake, 1,200 steps, 2 seeds")
    assert header.split()[:2] == ["preset", "ratio"]
    assert debug.split()[:2] == ["debug", "0.004"]
    assert quality.split()[:2] == ["quality", "0.25"]
    assert (tmp_path / "runs.svg").read_text().startswith("<svg")
    again = brisk(*words, "--json")
    assert again.stderr == ""
    figures = json.loads(again.stdout)
    assert list(figures["presets"]) == ["debug", "quality"]
    assert figures["presets"]["quality"]["updates"] == (1200 - 500) // 4


def test_its_flags_do_not_clash_with_those_of_training() -> None:
    for cls in _all_classes():
        assert clashes([cls, RatioBench]) == []


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["snake", "--algo", "ppo"], "has no --train-steps-ratio"),
        (["snake", "--train-steps-ratio", "fast"], "does not take --train-steps-ratio"),
        (["snake", "--run-dir", "runs/a"], "does not take --run-dir"),
        (["snake", "--presets", "slow"], "slow"),
        (["snake", "--presets", ""], "presets"),
        (["snake", "--seeds", "0"], "seeds"),
        (["snake", "--plot", "a.gif"], ".svg"),
        (["snek"], "snake"),
        (["snake", "--gmes", "3"], "--games"),
    ],
)
def test_mistakes_are_explained(
    words: list[str], message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["bench", "ratio", *words]) == 2
    assert message in capsys.readouterr().err
