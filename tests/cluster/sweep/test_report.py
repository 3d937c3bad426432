"""The report of a sweep, from folders with known results."""

from __future__ import annotations

import json
import re
import shutil
from collections.abc import Callable
from pathlib import Path
from xml.etree import ElementTree

import pytest

from briskrl.cluster.comparison import compare_groups
from briskrl.cluster.group_names import name_groups
from briskrl.cluster.groups import find_groups
from briskrl.cluster.sweep.importance import LEAST_TRIALS, importance_of
from briskrl.cluster.sweep.ledger import read_ledger
from briskrl.cluster.sweep.outcome import SweepResult, trials_of
from briskrl.cluster.sweep.report import rank, write_report
from briskrl.cluster.sweep.settings import SweepConfig
from briskrl.cluster.sweep.summary import summary_lines
from briskrl.core.errors import RunFolderError
from tests.cluster.sweep_folders import SweepFolder

GRID = SweepConfig(grid={"lr": "1e-4,1e-3,1e-2"}, seeds=3, confirm_seeds=2)


@pytest.fixture
def grid(tmp_path: Path) -> SweepFolder:
    """Three trials: the second is the best, and one run of the third fails."""
    sweep = SweepFolder(tmp_path / "grid", GRID)
    sweep.add(0, [5.0, 6.0, 7.0])
    sweep.add(1, [10.0, 11.0, 12.0])
    sweep.add(2, [20.0, None, 30.0])
    return sweep


def report_of(sweep: SweepFolder) -> str:
    folder = sweep.info.folder
    paths = write_report(folder)
    assert paths[0] == folder / "report.md"
    text = paths[0].read_text()
    shown = [folder / name for name in re.findall(r"!\[[^]]*\]\(([^)]*)\)", text)]
    assert sorted(shown) == sorted(paths[1:]) == sorted((folder / "figures").iterdir())
    for figure in shown:
        assert ElementTree.fromstring(figure.read_text()).tag.endswith("svg")
    return text


def section(text: str, title: str) -> str:
    return text.partition(f"## {title}\n")[2].partition("\n## ")[0]


def rows(text: str) -> list[list[str]]:
    lines = [line for line in text.splitlines() if line.startswith("|") and "---" not in line]
    return [[cell.strip() for cell in re.split(r"(?<!\\)\|", line)[1:-1]] for line in lines]


def test_finished_trials_are_ranked_and_failures_have_their_cause(grid: SweepFolder) -> None:
    text = report_of(grid)
    header, *trials = rows(section(text, "Trials"))
    assert header[:5] == ["rank", "trial", "lr", "score, IQM", "mean"]
    assert [row[:5] for row in trials] == [
        ["1", "1", "0.001", "11.0 [10.0, 12.0]", "11.0"],
        ["2", "0", "0.0001", "6.00 [5.00, 7.00]", "6.00"],
    ]
    (failed,) = rows(section(text, "Runs without a result"))[1:]
    assert failed[:4] == ["runs/002-seed1", "2", "1", "failed"]
    assert failed[4] == r"it was killed \| &lt;b&gt;twice&lt;/b&gt; by a signal"
    assert "8 done, 1 failed" in text


def test_the_selected_score_and_the_one_on_fresh_seeds_are_apart(grid: SweepFolder) -> None:
    before = section(report_of(grid), "Best trial")
    assert "Trial 1: `lr=0.001`" in before
    assert "optimistic" in before
    assert "not run again on fresh seeds" in before
    grid.add(1, [8.0, 9.0], confirms=True, first_seed=3)
    after = section(report_of(grid), "Best trial")
    selected, _, fresh = after.partition("on the fresh seeds 3, 4")
    assert "score 11.0 [10.0, 12.0]" in selected
    assert "score 8.50 [8.00, 9.00]" in fresh
    # They neither change the ranking nor count as a trial.
    assert [row[1] for row in rows(section(report_of(grid), "Trials"))[1:]] == ["1", "0"]
    chart = (grid.info.folder / "figures" / "scores.svg").read_text()
    assert "the same on fresh seeds" in chart


def test_curves_show_the_finished_trials_in_the_order_of_their_rank(grid: SweepFolder) -> None:
    table = rows(section(report_of(grid), "Learning curves"))
    assert [row[0] for row in table[1:]] == ["lr=0.001", "lr=0.0001"]
    assert table[0][3].startswith("steps to ")
    assert table[2][3] == "not reached"
    chart = (grid.info.folder / "figures" / "curves.svg").read_text()
    assert "environment steps" in chart
    assert "lr=0.0001" in chart


def test_the_same_ledger_gives_the_same_files(grid: SweepFolder, tmp_path: Path) -> None:
    first = {path.name: path.read_bytes() for path in write_report(grid.info.folder)}
    copy = tmp_path / "elsewhere" / "grid"
    shutil.copytree(grid.info.folder, copy)
    assert {path.name: path.read_bytes() for path in write_report(copy)} == first


def test_a_small_metric_can_be_the_best_one(tmp_path: Path) -> None:
    settings = SweepConfig(grid={"lr": "1e-4,1e-3"}, metric="mean_score", goal="min")
    sweep = SweepFolder(tmp_path / "a", settings)
    sweep.add(0, [5.0])
    sweep.add(1, [3.0])
    text = report_of(sweep)
    assert [row[1] for row in rows(section(text, "Trials"))[1:]] == ["1", "0"]
    assert "the smallest is the best" in text
    assert section(text, "Best trial").strip().startswith("Trial 1:")
    assert "one run, so there is no interval" in text


def test_seeds_alone_have_a_summary_and_no_ranking(tmp_path: Path) -> None:
    sweep = SweepFolder(tmp_path / "seeds", SweepConfig(seeds=5))
    sweep.add(0, [1.0, 2.0, 3.0, 4.0, 15.0])
    text = report_of(sweep)
    result = section(text, "Result")
    # The interquartile mean leaves out 1 and 15.
    assert "score 3.00 [" in result
    assert "mean 5.00, std 5.70, min 1.00, max 15.0" in result
    assert "5 runs of 6,000 steps; 6.0s of CPU time per run, 30.0s in total" in result
    for title in ("Trials", "Best trial", "Importance of the settings"):
        assert f"## {title}" not in text


def test_a_sweep_without_results_has_a_report_without_figures(tmp_path: Path) -> None:
    sweep = SweepFolder(tmp_path / "a", SweepConfig(seeds=2))
    sweep.add(0, [None, None])
    text = report_of(sweep)
    assert "No trial has finished." in text
    assert "best.toml" not in text
    assert len(rows(section(text, "Runs without a result"))) == 3


def test_a_report_keeps_no_figures_of_an_earlier_one(grid: SweepFolder) -> None:
    report_of(grid)
    for run in grid.info.folder.glob("runs/*"):
        shutil.rmtree(run)
    text = report_of(grid)
    assert "There are none." in section(text, "Learning curves")
    # Metrics are in the ledger.
    assert "11.0 [10.0, 12.0]" in text


def test_figures_are_not_written_through_links(grid: SweepFolder, tmp_path: Path) -> None:
    outside = tmp_path / "outside.svg"
    outside.write_text("precious")
    figures = grid.info.folder / "figures"
    figures.mkdir()
    (figures / "curves.svg").symlink_to(outside)
    write_report(grid.info.folder)
    assert outside.read_text() == "precious"
    shutil.rmtree(figures)
    figures.symlink_to(tmp_path)
    with pytest.raises(RunFolderError):
        write_report(grid.info.folder)


def test_the_importance_of_a_grid_is_that_of_the_setting_that_matters(tmp_path: Path) -> None:
    grid = {"lr": "1e-4,1e-3,1e-2,1e-1", "gamma": "0.9,0.95,0.99"}
    sweep = SweepFolder(tmp_path / "a", SweepConfig(grid=grid))
    for trial in range(LEAST_TRIALS - 1):
        sweep.add(trial, [float(trial // 3)])
    assert f"It needs {LEAST_TRIALS} finished trials" in report_of(sweep)
    for trial in range(LEAST_TRIALS - 1, 12):
        sweep.add(trial, [float(trial // 3)])
    text = section(report_of(sweep), "Importance of the settings")
    assert "PED-ANOVA" in text
    (first, share), (second, rest) = rows(text)[1:]
    assert (first, second) == ("lr", "gamma")
    assert float(share.rstrip("%")) > 90 > float(rest.rstrip("%"))
    assert (sweep.info.folder / "figures" / "importance.svg").exists()


def test_the_importance_of_a_search_comes_from_its_study(tmp_path: Path) -> None:
    settings = SweepConfig(
        search="random", trials=24, range={"lr": "1e-4..1e-2:log", "gamma": "0.9..0.99"}
    )
    sweep = SweepFolder(tmp_path / "a", settings)
    for trial in range(24):
        sweep.add(trial, lambda values: [-abs(values["gamma"] - 0.95)])
    result = SweepResult(sweep.info, read_ledger(sweep.info.folder))
    found = importance_of(sweep.info, result.trials)
    assert not isinstance(found, str)
    assert found.trials == 24
    assert [name for name, _ in found.shares] == ["gamma", "lr"]
    assert sum(share for _, share in found.shares) == pytest.approx(1)
    assert "from 24 finished trials" in report_of(sweep)
    (sweep.info.folder / "optuna.journal").write_text("{torn")
    assert "Optuna cannot estimate it" in report_of(sweep)


def test_trials_with_equal_values_say_nothing_about_importance(tmp_path: Path) -> None:
    grid = {"lr": "1e-4,1e-3,1e-2,1e-1", "gamma": "0.9,0.95,0.99"}
    sweep = SweepFolder(tmp_path / "a", SweepConfig(grid=grid))
    for trial in range(LEAST_TRIALS):
        sweep.add(trial, [2.0])
    assert "the same value" in section(report_of(sweep), "Importance of the settings")


def test_names_of_trials_do_not_depend_on_failures(grid: SweepFolder) -> None:
    sweep = SweepFolder(grid.info.folder.with_name("b"), GRID)
    sweep.add(0, [1.0])
    sweep.add(1, [None])
    names = [group.name for group in name_groups(find_groups([sweep.info.folder]))]
    assert names == ["lr=0.0001", "lr=0.001"]


def test_importance_needs_two_settings_that_vary(grid: SweepFolder) -> None:
    assert "needs two settings" in section(report_of(grid), "Importance of the settings")


def test_ranks_follow_the_choice_of_the_best_trial(grid: SweepFolder) -> None:
    result = SweepResult(grid.info, read_ledger(grid.info.folder))
    ranked = rank(result)
    assert result.best is not None
    assert ranked[0].trial == result.best.trial
    assert [trial.trial for trial in ranked] == [1, 0]


def test_a_summary_counts_only_runs_with_a_result(grid: SweepFolder) -> None:
    third = trials_of(read_ledger(grid.info.folder))[2]
    lines = summary_lines(third, "score")
    assert lines[0].startswith("score 25.0 [20.0, 30.0]")
    assert lines[2].startswith("2 of 3 runs of 6,000 steps")
    assert summary_lines(third, "unknown") == ["No finished run has a value of unknown."]


def test_a_sweep_can_be_compared_like_runs(
    grid: SweepFolder, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    grid.add(1, [8.0, 9.0], confirms=True, first_seed=3)
    found = compare_groups(name_groups(find_groups([grid.info.folder])))
    scores = {result.name: result.scores for result in found.results}
    assert scores == {
        "lr=0.01": (20.0, 30.0),
        "lr=0.001": (10.0, 11.0, 12.0),
        "confirmed, lr=0.001": (8.0, 9.0),
        "lr=0.0001": (5.0, 6.0, 7.0),
    }
    (left_out,) = found.left_out
    assert left_out.folder.name == "002-seed1"
    assert left_out.cause.startswith("failed: it was killed")
    assert found.best.group.left_out == (left_out,)

    from briskrl.cli.main import main

    monkeypatch.chdir(grid.info.folder.parent)
    assert main(["compare", "grid", "--json"]) == 0
    printed = json.loads(capsys.readouterr().out)
    assert [group["name"] for group in printed["groups"]] == list(scores)
    assert printed["left_out"][0]["run"].endswith("002-seed1")


def test_names_of_trials_with_many_settings_begin_with_their_number(tmp_path: Path) -> None:
    settings = SweepConfig(grid={"train_steps_ratio": "0.125,0.25", "target_every": "1000,2000"})
    sweep = SweepFolder(tmp_path / "a", settings)
    for trial in range(4):
        sweep.add(trial, [1.0])
    names = [group.name for group in name_groups(find_groups([sweep.info.folder]))]
    assert [name.partition(":")[0] for name in names] == ["0", "1", "2", "3"]


@pytest.mark.parametrize("damage", [Path.unlink, lambda path: path.write_text("{]\n")])
def test_a_folder_without_a_readable_ledger_is_refused(
    grid: SweepFolder, damage: Callable[[Path], object]
) -> None:
    damage(grid.info.folder / "trials.jsonl")
    with pytest.raises(RunFolderError):
        write_report(grid.info.folder)
