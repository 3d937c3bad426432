"""The `brisk compare` command."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from briskrl import train
from briskrl.cli.main import main
from tests.cli.conftest import Brisk
from tests.cluster.run_folders import make_run
from tests.training.runs import fused_config


@pytest.fixture
def runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A current folder with two runs of each of two settings under runs/."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "runs").mkdir()
    for name, lr in (("slow", 1e-4), ("fast", 1e-3)):
        for seed in range(2):
            scores = [1e4 * lr * (1 + index / 40 + seed) for index in range(80)]
            make_run(tmp_path / f"runs/{name}-{seed}", scores, seed=seed, algo_config={"lr": lr})
    return tmp_path


def output(capsys: pytest.CaptureFixture[str], *words: str) -> str:
    assert main(["compare", *words]) == 0
    return capsys.readouterr().out


def test_real_runs_of_two_settings_are_compared_in_a_process_of_its_own(
    brisk: Brisk, tmp_path: Path
) -> None:
    for lr in (1e-5, 1e-3):
        for seed in (0, 1):
            folder = tmp_path / f"runs/{lr}-{seed}"
            train(fused_config(folder, env="cartpole", seed=seed, algo_config={"lr": lr}))
    done = brisk("compare", "runs", "--to", "1", "--out", "a.png", "--json")
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout)
    assert {group["name"] for group in found["groups"]} == {"lr=1e-05", "lr=0.001"}
    assert found["out"] == "a.png"
    assert (found["envs"], found["final_from"], found["target"]["given"]) == (
        ["cartpole"],
        "training",
        True,
    )
    for group in found["groups"]:
        assert group["seeds"] == [0, 1]
        assert all(steps >= 3000 for steps in group["env_steps"])
        assert group["final_score"]["low"] <= group["final_score"]["value"]
        arrival = group["steps_to_score"]
        assert arrival["reached"] == arrival["runs"] == 2
        assert 0 < arrival["median"] < 3000
        assert 0 < group["cpu_s_to_score"]["median"] < sum(group["cpu_s"])
    assert (tmp_path / "a.png").read_bytes().startswith(b"\x89PNG")


def test_names_patterns_and_folders_find_the_same_runs(
    runs: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    names = [f"{name}-{seed}" for name in ("slow", "fast") for seed in (0, 1)]
    whole = output(capsys, *(f"runs/{name}" for name in names))
    assert "snake: 2 groups, 4 runs" in whole
    assert "lr=0.001" in whole.splitlines()[3]
    assert output(capsys, *names) == whole
    assert output(capsys, "slow-*", "fast-?") == whole
    assert output(capsys, "runs/slow-*", "runs/fast*") == whole
    assert output(capsys, "runs/fast-*", "runs/slow-*") == whole
    assert output(capsys, "runs") == whole
    assert output(capsys, str(runs / "runs")) == whole


def test_labels_are_in_the_order_of_the_arguments(
    runs: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    text = output(capsys, "slow-*", "fast-*", "--labels", "old,new")
    assert [line.split()[0] for line in text.splitlines()[3:5]] == ["new", "old"]


@pytest.mark.parametrize("suffix", ["svg", "png", "pdf"])
def test_charts_are_written_by_any_clock(
    runs: Path, capsys: pytest.CaptureFixture[str], suffix: str
) -> None:
    text = output(capsys, "runs", "--x", "cpu_s", "--out", f"a.{suffix}", "--metric", "return")
    assert text.endswith(f"chart: a.{suffix}\n")
    assert Path(f"a.{suffix}").stat().st_size > 1000
    if suffix == "svg":
        svg = Path("a.svg").read_text()
        for words in ("CPU seconds of training", "lr=0.001", "final return in training"):
            assert words in svg


@pytest.mark.parametrize(
    ("words", "message"),
    [
        ([], "RUN|SWEEP"),
        (["fast-9"], "'runs/fast-0'"),
        (["nothing-*"], "No run or sweep folder matches 'nothing-*'"),
        (["runs", "--out", "a.gif"], ".svg, .png, .pdf"),
        (["runs", "--out", "missing/a.svg"], "no folder"),
        (["runs", "--labels", "one"], "names 1 groups, but there are 2: lr=0.001; lr=0.0001"),
        (["runs", "--labels", "a,a"], "different names"),
        (["runs", "--x", "hours"], "env_steps"),
        (["runs", "--to", "high"], "to = 'high'"),
        (["runs", "--window", "0"], "window = 0"),
        (["runs", "other"], "--mixed-envs"),
    ],
)
def test_mistakes_are_one_paragraph(
    runs: Path, capsys: pytest.CaptureFixture[str], words: list[str], message: str
) -> None:
    make_run(runs / "other", [1.0], env="cartpole")
    assert main(["compare", *words]) == 2
    error = capsys.readouterr().err
    assert message in error
    assert error.count("\n") == 1
    assert not list(Path().glob("a.*"))


def test_help_documents_the_json_output(runs: Path, capsys: pytest.CaptureFixture[str]) -> None:
    help_text = output(capsys, "--help")
    found = json.loads(output(capsys, "runs", "--json"))
    for name in (
        *found,
        *found["groups"][0],
        *found["target"],
        *found["groups"][0]["steps_to_score"],
    ):
        assert name in help_text
