"""The final evaluation of `brisk train`, runs without an update, and names of other libraries."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from briskrl.cli.main import main
from briskrl.cluster.run_scores import EvalScore, read_scores
from briskrl.training.evaluate import evaluate

TRAIN = ("train", "cartpole", "--algo", "a2c", "--num-envs", "4", "--net", "8", "--engine", "fused")


def run(*words: str, capsys: pytest.CaptureFixture[str]) -> tuple[int, str, str]:
    code = main(list(words))
    streams = capsys.readouterr()
    return code, streams.out, streams.err


def test_the_final_evaluation_is_printed_and_listed(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = tmp_path / "runs" / "one"
    words = (*TRAIN, "--steps", "256", "--run-dir", str(folder), "--final-episodes", "5")
    code, out, _ = run(*words, "--json", capsys=capsys)
    assert code == 0
    shown = json.loads(out)
    expected = evaluate(folder, episodes=5)
    assert shown["final_score"] == expected.mean_score
    assert (shown["final_return"], shown["final_episodes"]) == (expected.mean_return, 5)
    _, out, _ = run("runs", "--root", str(folder.parent), "--json", capsys=capsys)
    (listed,) = json.loads(out)["runs"]
    assert listed["final_score"] == expected.mean_score
    assert listed["mean_score"] == shown["mean_score"] != expected.mean_score
    assert read_scores(folder, "score").evaluation == EvalScore(expected.mean_score, 5)
    _, out, _ = run("runs", "--root", str(folder.parent), capsys=capsys)
    assert out.splitlines()[0].split()[4:7] == ["score", "in", "training"]
    # A resumed run has another policy, which is not evaluated here.
    run("resume", str(folder), "--steps", "320", "--final-episodes", "0", capsys=capsys)
    _, out, _ = run("runs", "--root", str(folder.parent), "--json", capsys=capsys)
    assert json.loads(out)["runs"][0]["final_score"] is None
    assert read_scores(folder, "score").evaluation is None


def test_without_final_episodes_the_summary_has_the_score_of_training(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    words = (*TRAIN, "--steps", "256", "--run-dir", str(tmp_path / "r"), "--final-episodes", "0")
    code, out, _ = run(*words, capsys=capsys)
    assert code == 0
    assert "mean of the last training episodes" in out
    code, _, err = run(*words, "--final-episodes", "some", capsys=capsys)
    assert code == 2
    assert "'some' is not a number of episodes" in err


def test_a_run_without_an_update_prints_that_and_fails(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    words = (*TRAIN, "--steps", "8", "--run-dir", str(tmp_path / "r"), "--final-episodes", "1")
    code, out, err = run(*words, capsys=capsys)
    assert code == 1
    assert "warning: no update: a rollout takes 32 steps" in out
    assert "No update was done" in err
    # Training it further is fine.
    code, *_ = run("resume", str(tmp_path / "r"), "--steps", "64", capsys=capsys)
    assert code == 0


def test_a_new_learning_rate_at_resume(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    folder = tmp_path / "r"
    run(*TRAIN, "--steps", "64", "--run-dir", str(folder), "--final-episodes", "0", capsys=capsys)
    words = ("resume", str(folder), "--steps", "128", "--lr", "1e-5", "--final-episodes", "0")
    assert run(*words, capsys=capsys)[0] == 0
    meta = json.loads((folder / "meta.json").read_text())
    assert meta["sessions"][1]["changes"]["algo_config.lr"][1] == 1e-5
    assert run(*words[:4], "--lr", "fast", capsys=capsys)[0] == 2


@pytest.mark.parametrize(
    ("flags", "hint"),
    [
        (("--wandb",), "Use --log wandb"),
        (("--track",), "Use --log wandb"),
        (("--cuda", "true"), "Set device"),
        (("--algo", "sac"), "sac is not available. For continuous actions there are ppo, a2c"),
        (("--learning-rat", "1"), "'--learning-rate'"),
    ],
)
def test_names_of_other_libraries_suggest_ours(
    flags: tuple[str, ...], hint: str, capsys: pytest.CaptureFixture[str]
) -> None:
    code, _, err = run("train", "cartpole", *flags, capsys=capsys)
    assert code == 2
    assert hint in err


def test_names_with_an_equivalent_work(capsys: pytest.CaptureFixture[str]) -> None:
    words = ("--learning-rate", "0.25", "--total-timesteps", "77", "--print-config")
    code, out, _ = run("train", "cartpole", *words, capsys=capsys)
    assert code == 0
    assert "lr = 0.25" in out
    assert "steps = 77" in out
