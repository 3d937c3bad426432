"""Learning curves of run folders and of studies of the update ratio."""

from __future__ import annotations

import json
from pathlib import Path
from xml.etree import ElementTree

import numpy as np
import pytest

from briskrl.bench.ratio import RatioBench, RatioRun, summarize
from briskrl.bench.train_loop import Curve
from briskrl.core.errors import ConfigError, RunFolderError
from briskrl.plots import check_plot_path, learning_curve, ratio_curves


def write_run(
    folder: Path, scores: list[float], *, env: str = "snake", algo: str = "dqn", tail: str = ""
) -> Path:
    """A run folder with one episode per 100 steps, trained at 1000 steps per second."""
    folder.mkdir()
    (folder / "config.toml").write_text(f'env = "{env}"\nalgo = "{algo}"\n')
    rows = [f"{100 * (index + 1)},0,9,{score},{score},0,1" for index, score in enumerate(scores)]
    header = "env_steps,env,steps,return,score,won,cause"
    (folder / "episodes.csv").write_text("\n".join([header, *rows]) + "\n" + tail)
    metrics = [{"env_steps": 100, "wall_s": 0.1}, {"env_steps": 10_000, "wall_s": 10.0}]
    (folder / "metrics.jsonl").write_text("".join(json.dumps(row) + "\n" for row in metrics))
    return folder


def test_runs_of_one_setting_are_one_curve_with_a_band(tmp_path: Path) -> None:
    runs = [write_run(tmp_path / str(seed), [float(seed)] * 120) for seed in (1, 2, 3)]
    figure = learning_curve(runs, tmp_path / "a.svg")
    (ax,) = figure.axes
    (line,) = ax.get_lines()
    xs, ys = line.get_data()
    assert np.asarray(ys).tolist() == [2.0] * 60
    assert (xs[0], xs[-1]) == (200, 12_000)
    edges = ax.collections[0].get_paths()[0].vertices[:, 1]
    # Student's 0.975 quantile with two degrees of freedom is 4.303.
    assert edges.max() == pytest.approx(2 + 4.303 / np.sqrt(3), abs=1e-3)
    assert ax.get_title(loc="left") == "dqn on snake"
    assert ElementTree.fromstring((tmp_path / "a.svg").read_text()) is not None


def test_points_are_means_of_the_episodes_since_the_last_point(tmp_path: Path) -> None:
    run = write_run(tmp_path / "a", [float(index % 2) for index in range(120)])
    (line,) = learning_curve([run], tmp_path / "a.png").axes[0].get_lines()
    assert set(line.get_ydata()) == {0.5}


def test_curves_end_with_the_shortest_run_and_skip_places_without_episodes(tmp_path: Path) -> None:
    runs = [write_run(tmp_path / "a", [1.0] * 30), write_run(tmp_path / "b", [1.0] * 90)]
    (line,) = learning_curve(runs, tmp_path / "a.png").axes[0].get_lines()
    xs = line.get_xdata()
    assert xs[-1] == 3000
    assert len(xs) == 30


def test_runs_without_a_common_part_are_refused(tmp_path: Path) -> None:
    long = write_run(tmp_path / "long", [1.0] * 200)
    first = "env_steps,env,steps,return,score,won,cause\n"
    (long / "episodes.csv").write_text(first + "20000,0,9,1,1,0,1\n")
    with pytest.raises(RunFolderError, match="no episodes at the same steps"):
        learning_curve([write_run(tmp_path / "short", [1.0] * 3), long], tmp_path / "a.svg")


def test_algorithms_and_environments_are_separate_curves(tmp_path: Path) -> None:
    runs = [
        write_run(tmp_path / "a", [1.0] * 60),
        write_run(tmp_path / "b", [2.0] * 60, algo="ppo"),
        write_run(tmp_path / "c", [3.0] * 60, algo="ppo", env="cartpole"),
    ]
    figure = learning_curve(runs[:2], tmp_path / "a.png")
    assert [text.get_text() for text in figure.legends[0].get_texts()] == ["dqn", "ppo"]
    figure = learning_curve(runs, tmp_path / "a.png")
    assert [text.get_text() for text in figure.legends[0].get_texts()] == [
        "dqn on snake",
        "ppo on snake",
        "ppo on cartpole",
    ]


def test_curves_can_be_drawn_by_time(tmp_path: Path) -> None:
    run = write_run(tmp_path / "a", [1.0] * 60)
    (ax,) = learning_curve([run], tmp_path / "a.png", x="wall_s", title="mine").axes
    assert ax.get_lines()[0].get_xdata()[-1] == pytest.approx(6.0)
    assert ax.get_xlabel() == "seconds of training"
    assert ax.get_title(loc="left") == "mine"


def test_times_before_the_first_row_of_metrics_begin_at_zero(tmp_path: Path) -> None:
    run = write_run(tmp_path / "a", [1.0] * 60)
    row = {"env_steps": 6000, "wall_s": 6.0}
    (run / "metrics.jsonl").write_text(json.dumps(row) + "\n")
    (line,) = learning_curve([run], tmp_path / "a.png", x="wall_s").axes[0].get_lines()
    np.testing.assert_allclose(line.get_xdata(), 0.1 * np.arange(1, 61))
    assert set(line.get_ydata()) == {1.0}


def test_a_line_that_is_still_being_written_is_left_out(tmp_path: Path) -> None:
    run = write_run(tmp_path / "a", [1.0] * 60, tail="6100,0,9,5")
    (line,) = learning_curve([run], tmp_path / "a.png").axes[0].get_lines()
    assert set(line.get_ydata()) == {1.0}


def test_runs_without_episodes_and_charts_without_runs_are_refused(tmp_path: Path) -> None:
    with pytest.raises(RunFolderError, match="no finished episodes"):
        learning_curve([write_run(tmp_path / "a", [])], tmp_path / "a.svg")
    (tmp_path / "a" / "episodes.csv").unlink()
    with pytest.raises(RunFolderError, match="no finished episodes"):
        learning_curve([tmp_path / "a"], tmp_path / "a.svg")
    with pytest.raises(RunFolderError, match="no run folder"):
        learning_curve([tmp_path / "missing"], tmp_path / "a.svg")
    with pytest.raises(ConfigError, match="at least one run"):
        learning_curve([], tmp_path / "a.svg")


def test_a_study_has_a_curve_per_preset_by_steps_and_by_time(tmp_path: Path) -> None:
    runs = [
        RatioRun("s", "snake", "dqn", preset, seed, Curve([10, 20], [1, 2 + seed], [1, 2], [1, 2]))
        for preset in ("debug", "fast")
        for seed in (0, 1)
    ]
    result = summarize(runs, 20, RatioBench(seeds=2))
    figure = ratio_curves(result, tmp_path / "a.svg")
    for ax in figure.axes:
        *curves, mark = ax.get_lines()
        assert [line.get_label() for line in curves] == ["debug", "fast"]
        assert [list(line.get_ydata()) for line in curves] == [[1, 2.5], [1, 2.5]]
        assert set(mark.get_ydata()) == {result.score}
    assert [ax.get_xscale() for ax in figure.axes] == ["linear", "log"]
    assert (tmp_path / "a.svg").read_text().startswith("<svg")


def test_charts_that_cannot_be_written_are_refused_beforehand(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"\.svg"):
        check_plot_path(str(tmp_path / "a.gif"))
    with pytest.raises(ConfigError, match="no folder"):
        check_plot_path(str(tmp_path / "missing" / "a.svg"))
