"""`brisk play` under workflows: text, one GIF of two workflows, and what cannot be played."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from briskrl.cli.main import main
from briskrl.envs.workflow.render import Caption, side_by_side
from briskrl.training.loop import train
from tests.training.runs import fused_config

CAGE2 = {"task_config": {"red": "bline", "length": 12, "response_prob": 0.5}}
ENV = ["workflow:cage2", "--task-config", "red=bline,length=12,start_compromised=6"]


@pytest.fixture(scope="module")
def trained(tmp_path_factory: pytest.TempPathFactory) -> str:
    run = tmp_path_factory.mktemp("play") / "run"
    train(fused_config(run, "ppo", env="workflow:cage2", env_config=CAGE2, steps=400))
    return str(run)


def test_a_policy_plays_under_each_workflow_in_turn(
    trained: str, capsys: pytest.CaptureFixture[str]
) -> None:
    words = ("--workflow", "user-first", "--workflow", "op_server>enterprise>user>defender>op_host")
    assert main(["play", trained, *words]) == 0
    shown = capsys.readouterr().out
    assert shown.count("step 12 of 12") == 2
    first, second = (
        line for line in shown.splitlines() if "in 12 steps" in line and "return" in line
    )
    assert first.startswith("user>defender>enterprise>op_server>op_host: fixes in order")
    assert second.startswith("op_server>enterprise>user>defender>op_host: fixes in order")


def test_the_oracle_obeys(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["play", *ENV, "--workflow", "outside-in", "--seed", "3"]) == 0
    shown = capsys.readouterr().out
    last = shown.splitlines()[-1]
    fixes = last.partition("fixes in order ")[2].partition(",")[0]
    compliant, judged = fixes.split(" of ")
    assert compliant == judged
    assert int(judged) >= 6
    assert "[user]*" in shown or "[op_host]*" in shown
    assert main(["play", *ENV, "--workflow", "outside-in", "--player", "random"]) == 0


def test_two_workflows_are_saved_side_by_side(
    tmp_path: Path, trained: str, capsys: pytest.CaptureFixture[str]
) -> None:
    words = ["--workflow", "critical-first", "--workflow", "user-first", "--cell-px", "6"]
    for target in ([trained], ENV):
        path = tmp_path / "two.gif"
        assert main(["play", *target, *words, "--gif", str(path)]) == 0
        with Image.open(path) as image:
            assert image.n_frames == 13
            assert image.size == (2 * 40 * 6 + 2, 27 * 6 + round(2.6 * 6))
    assert capsys.readouterr().out.count("return") == 4


@pytest.mark.parametrize(
    ("words", "match"),
    [
        (["workflow:cage2", "--workflow", "user>op_server"], "lacks"),
        (["workflow:cage2", "--player", "heuristic"], "oracle or random"),
        (["cartpole", "--workflow", "a>b"], "no workflows"),
    ],
)
def test_what_cannot_be_played_is_an_error(
    words: list[str], match: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["play", *words]) == 2
    assert match in " ".join(capsys.readouterr().err.split())


def test_a_caption_shows_what_is_required() -> None:
    caption = Caption(("user", "server", "host"), (False, True, True), ok=3, judged=4)
    assert caption.as_text() == ("workflow user > [server]* > [host]   fixes in order 3 of 4")
    picture = caption.above(np.zeros((20, 300, 3), np.uint8), 10)
    assert picture.shape == (46, 300, 3)
    assert (picture[:26] != picture[0, -1]).any()
    assert side_by_side([picture, picture], 4).shape == (46, 604, 3)
