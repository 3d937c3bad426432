"""`brisk plot` draws every metric of runs, alone and as means of groups."""

from __future__ import annotations

import json

import numpy as np
import pytest

from briskrl.cli.main import main
from briskrl.core.errors import BriskError, RunFolderError
from briskrl.plots.run_metrics import metric_panels, metrics_of, read_curve

CONFIG = 'env = "snake"\nalgo = "ppo"\nseed = {seed}\nsteps = 1000\n'


def make_run(folder, seed, scores, losses):
    folder.mkdir(parents=True)
    (folder / "config.toml").write_text(CONFIG.format(seed=seed))
    steps = np.linspace(1000 / len(scores), 1000, len(scores))
    lines = [
        f"{step:.0f},0,5,{score},{score},0,1" for step, score in zip(steps, scores, strict=True)
    ]
    head = "env_steps,env,steps,return,score,won,cause"
    (folder / "episodes.csv").write_text("\n".join([head, *lines]) + "\n")
    rows = [
        {
            "env_steps": 100 * (k + 1),
            "wall_s": k + 1.0,
            "cpu_s": 2.0 * (k + 1),
            "loss": loss,
            "steps_per_s": 100.0,
            "epsilon": None,
        }
        for k, loss in enumerate(losses)
    ]
    (folder / "metrics.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    return folder


@pytest.fixture
def runs(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    first = make_run(tmp_path / "runs/a", 0, [10.0] * 100, [3.0, 2.0, 1.0])
    second = make_run(tmp_path / "runs/b", 1, [20.0] * 100, [5.0, 4.0, 3.0])
    evaluation = [{"env_steps": 500, "mean_score": 7.0}, {"env_steps": 1000, "mean_score": 9.0}]
    (first / "evaluations.jsonl").write_text("".join(json.dumps(row) + "\n" for row in evaluation))
    return first, second


def test_a_run_has_the_metrics_of_its_files(runs):
    assert metrics_of(runs[0]) == ["score", "eval", "return", "loss", "steps_per_s"]
    places, values = read_curve(runs[0], "loss", "cpu_s")
    assert (places.tolist(), values.tolist()) == ([2, 4, 6], [3, 2, 1])
    places, values = read_curve(runs[0], "eval", "env_steps")
    assert (places.tolist(), values.tolist()) == ([500, 1000], [7, 9])


def test_groups_are_means_with_intervals(runs):
    panels = metric_panels({"both": runs}, metrics=["score", "loss"])
    score, loss = (panel.lines[0] for panel in panels)
    assert set(np.round(score.y, 9)) == {15.0}
    # The 95 % interval of two values: t = 12.706 times 5.
    assert score.high[0] - score.y[0] == pytest.approx(12.706 * 5, rel=1e-3)
    assert loss.y[0] == pytest.approx(4.0)
    assert loss.y[-1] == pytest.approx(2.0)


def test_curves_are_smoothed_by_running_means(runs):
    panel = metric_panels({"a": runs[:1]}, metrics=["loss"], smooth=2)[0]
    assert panel.lines[0].y == [3.0, 2.5, 1.5]


def test_a_metric_that_no_run_has_is_named(runs):
    with pytest.raises(BriskError, match="'loss'"):
        metric_panels({"a": runs[:1]}, metrics=["los"])


def test_a_run_without_episodes_cannot_be_drawn(tmp_path):
    folder = tmp_path / "new"
    folder.mkdir()
    (folder / "config.toml").write_text(CONFIG.format(seed=0))
    with pytest.raises(RunFolderError, match="nothing to draw"):
        metric_panels({"new": [folder]})


@pytest.mark.parametrize("name", ["x.png", "x.svg", "x.pdf"])
def test_the_command_writes_every_format(runs, capsys, name):
    magic = {"png": b"\x89PNG", "svg": b"<svg", "pdf": b"%PDF"}
    assert main(["plot", "a", "b", "-o", name, "--per-run"]) == 0
    assert f"wrote {name}: 5 charts of 2 runs" in capsys.readouterr().out
    with open(name, "rb") as file:
        assert file.read(4) == magic[name[2:]]


def test_mistakes_are_refused_before_anything_is_drawn(runs, capsys):
    assert main(["plot", "a", "-o", "x.gif"]) == 2
    assert ".png" in capsys.readouterr().err
    assert main(["plot", "nothing"]) == 2
