"""Comparisons of groups of runs with known episodes."""

from __future__ import annotations

import math
from pathlib import Path

import pytest

from briskrl.cluster.comparison import Comparison, compare_groups
from briskrl.cluster.comparison_chart import MOST_CURVES, chart_of, save_comparison
from briskrl.cluster.comparison_text import comparison_json, comparison_text
from briskrl.cluster.group_names import name_groups
from briskrl.cluster.groups import find_groups
from briskrl.core.errors import ConfigError, RunFolderError
from tests.cluster.run_folders import make_run, put_result


def ramp(final: float, episodes: int = 100) -> list[float]:
    """Scores that rise from 0 over the first half and stay at their final value."""
    half = episodes // 2
    return [final * index / half for index in range(half)] + [final] * (episodes - half)


def compare(*runs: Path, **options: object) -> Comparison:
    return compare_groups(name_groups(find_groups(runs)), **options)


@pytest.fixture
def two_groups(tmp_path: Path) -> list[Path]:
    """Three runs of ppo that end at 20, 21 and 22, and three of dqn at 5, 6 and 21.5."""
    finals = {"ppo": (20.0, 21.0, 22.0), "dqn": (5.0, 6.0, 21.5)}
    return [
        make_run(tmp_path / f"{algo}-{seed}", ramp(final), algo=algo, seed=seed, num_envs=8)
        for algo, all_finals in finals.items()
        for seed, final in enumerate(all_finals)
    ]


def test_groups_are_ranked_by_the_interquartile_mean_of_their_runs(two_groups: list[Path]) -> None:
    found = compare(*reversed(two_groups))
    best, other = found.results
    assert (best.name, other.name) == ("ppo", "dqn")
    assert found.best is best
    assert best.final.value == pytest.approx(21.0)
    assert (best.final.low, best.final.high) == (pytest.approx(20.0), pytest.approx(22.0))
    assert sorted(other.scores) == pytest.approx([5.0, 6.0, 21.5])
    assert best.improvement is None
    # Of nine pairs, ppo loses to 21.5 twice.
    assert other.improvement is not None
    assert other.improvement.value == pytest.approx(7 / 9)


def test_the_default_target_is_on_the_way_of_the_best_group_in_training(
    two_groups: list[Path],
) -> None:
    found = compare(*two_groups)
    assert found.target is not None
    assert found.target.window == 10
    # The first ten episodes of the best group average 21 * 4.5 / 50.
    first = 21 * 4.5 / 50
    assert found.target.score == pytest.approx(first + 0.9 * (21 - first), abs=0.05)
    assert not found.target.is_given


def test_steps_and_seconds_to_a_score_count_runs_that_do_not_reach_it(
    two_groups: list[Path],
) -> None:
    best, other = compare(*two_groups, to=19.0, window=1).results
    # The run that ends at 22 passes 19 with episode 45: 22 * 44 / 50 = 19.36.
    assert best.steps is not None
    assert (best.steps.low, best.steps.reached, best.steps.runs) == (4500, 3, 3)
    # 19 / 21 * 50 = 45.2, so index 46 and the 47th episode.
    assert best.steps.median == 4700
    assert best.cpu_s is not None
    assert best.cpu_s.median == pytest.approx(4.7)
    assert other.steps is not None
    assert (other.steps.median, other.steps.reached) == (math.inf, 1)
    found = comparison_json(compare(*two_groups, to=19.0, window=1))
    assert found["groups"][1]["steps_to_score"] == {
        "median": None,
        # 19 / 21.5 * 50 = 44.2.
        "low": 4600.0,
        "high": None,
        "reached": 1,
        "runs": 3,
    }


def test_negative_scores_have_a_target_that_the_best_group_reaches(tmp_path: Path) -> None:
    scores = [value - 50.0 for value in ramp(40.0)]
    found = compare(make_run(tmp_path / "a", scores))
    assert found.target is not None
    assert -50 < found.target.score < -10
    assert found.best.steps is not None
    assert found.best.steps.reached == 1


def test_without_learning_there_is_no_target(tmp_path: Path) -> None:
    found = compare(make_run(tmp_path / "a", [3.0] * 50), make_run(tmp_path / "b", [2.0] * 50))
    assert found.target is None
    assert found.best.steps is None
    assert "steps to" not in comparison_text(found)
    assert comparison_json(found)["target"] is None
    panel, _ = chart_of(found)
    assert panel.mark is None


def test_final_scores_come_from_evaluations_only_if_all_runs_have_one_of_a_kind(
    two_groups: list[Path],
) -> None:
    for index, run in enumerate(two_groups):
        put_result(run, 100.0 + index)
    found = compare(*two_groups)
    assert found.eval_episodes == 100
    assert sorted(found.best.scores) == [103.0, 104.0, 105.0]
    # The score to reach is one of training all the same.
    assert found.target is not None
    assert found.target.score < 22
    assert "evaluations of 100 episodes" in comparison_text(found)
    put_result(two_groups[0], 100.0, episodes=50)
    assert compare(*two_groups).eval_episodes is None
    (two_groups[0] / "result.json").unlink()
    assert compare(*two_groups).eval_episodes is None
    assert "last tenth of training" in comparison_text(compare(*two_groups))


def test_returns_can_be_compared_instead_of_scores(two_groups: list[Path]) -> None:
    found = compare(*two_groups, metric="return")
    assert found.best.final.value == pytest.approx(210.0)
    assert "final return" in comparison_text(found)


def test_different_environments_are_refused_unless_asked_for(tmp_path: Path) -> None:
    runs = [
        make_run(tmp_path / "a", ramp(9.0)),
        make_run(tmp_path / "b", ramp(5.0), env="cartpole"),
    ]
    with pytest.raises(ConfigError, match=r"snake, cartpole.*--mixed-envs"):
        compare(*runs)
    found = compare(*runs, mixed_envs=True)
    assert found.envs == ["snake", "cartpole"]


def test_single_runs_have_no_interval_and_that_is_noted(tmp_path: Path) -> None:
    found = compare(make_run(tmp_path / "a", ramp(9.0)))
    assert found.best.final.low is None
    assert any("one run has no interval" in note for note in found.notes)
    text = comparison_text(found)
    assert "1 group, 1 run\n" in text
    assert "best is better" not in text
    assert "[" not in text.splitlines()[3]


def test_what_limits_a_comparison_is_noted(tmp_path: Path) -> None:
    runs = [make_run(tmp_path / str(seed), ramp(9.0), seed=seed % 2) for seed in range(3)]
    runs.append(make_run(tmp_path / "ppo", ramp(5.0), algo="ppo", state="running", num_envs=8))
    notes = "\n".join(compare(*runs).notes)
    assert "dqn: some runs have the same seed" in notes
    assert "dqn: bootstrap intervals of fewer than 5 runs" in notes
    assert "ppo: one run" in notes
    assert "1 of 4 runs have not finished" in notes
    assert "also differ in num_envs" in notes
    alike = [make_run(tmp_path / f"x{seed}", ramp(9.0), seed=seed) for seed in range(5)]
    assert compare(*alike).notes == ()


def test_runs_that_cannot_be_read_are_left_out_and_named(two_groups: list[Path]) -> None:
    (two_groups[0] / "episodes.csv").unlink()
    found = compare(*two_groups)
    assert [entry.folder for entry in found.left_out] == [two_groups[0]]
    text = comparison_text(found)
    assert "2 of 3" in text
    assert f"left out: {two_groups[0]}" in text.replace("\n  ", " ")
    for run in two_groups:
        (run / "episodes.csv").unlink(missing_ok=True)
    with pytest.raises(RunFolderError, match="None of the runs can be compared"):
        compare(*two_groups)


def test_the_table_has_a_row_per_group(two_groups: list[Path]) -> None:
    rows = comparison_text(compare(*two_groups, to=20.0)).splitlines()
    assert rows[0] == "snake: 2 groups, 6 runs"
    header, ppo, dqn = (row.split("  ") for row in rows[2:5])
    columns = [cell.strip() for cell in header if cell.strip()]
    assert columns == [
        *("group", "runs", "final score", "steps to 20", "CPU s to 20", "best is better"),
    ]
    assert "21.0 [20.0, 22.0]" in rows[3]
    assert "- [" in "  ".join(dqn)
    assert "1 of 3" in "  ".join(dqn)
    assert "78% [" in rows[4]
    assert ppo[-1].strip() == "-"


def test_curves_of_a_group_are_interquartile_means_with_intervals(two_groups: list[Path]) -> None:
    panel, rows = chart_of(compare(*two_groups))
    assert [line.name for line in panel.lines] == [row.name for row in rows] == ["ppo", "dqn"]
    ppo = panel.lines[0]
    assert ppo.x[-1] == 10_000
    assert (ppo.low[-1], ppo.y[-1], ppo.high[-1]) == pytest.approx((20.0, 21.0, 22.0))
    assert panel.x_label == "environment steps"
    by_time, _ = chart_of(compare(*two_groups), clock="wall_s")
    assert by_time.lines[0].x[-1] == pytest.approx(5.0)


def test_the_score_to_reach_is_not_marked_among_scores_of_evaluations(
    two_groups: list[Path], tmp_path: Path
) -> None:
    def dashed_lines() -> int:
        save_comparison(compare(*two_groups), tmp_path / "chart.svg")
        return (tmp_path / "chart.svg").read_text().count("stroke-dasharray")

    assert dashed_lines() == 2
    for run in two_groups:
        put_result(run, 100.0)
    assert dashed_lines() == 1


def test_curves_of_very_different_lengths_have_a_logarithmic_axis(tmp_path: Path) -> None:
    short, long = make_run(tmp_path / "a", ramp(9.0, 20)), make_run(tmp_path / "b", ramp(9.0, 40))
    assert not chart_of(compare(short, long))[0].log_x
    longer = make_run(tmp_path / "c", ramp(9.0, 90), num_envs=8)
    panel, _ = chart_of(compare(short, longer))
    assert panel.log_x
    assert min(line.x[0] for line in panel.lines) > 0


def test_curves_keep_their_last_mean_where_no_episode_ends(tmp_path: Path) -> None:
    panel, _ = chart_of(compare(make_run(tmp_path / "a", [1.0, 2.0, 6.0])))
    (line,) = panel.lines
    assert sorted(set(line.y)) == [1.0, 2.0, 6.0]
    assert list(line.y) == sorted(line.y)
    assert line.x[0] == pytest.approx(100)


def test_a_chart_shows_as_many_groups_as_there_are_colors(tmp_path: Path) -> None:
    runs = [
        make_run(tmp_path / str(index), ramp(index + 1.0), num_envs=index + 1) for index in range(9)
    ]
    panel, rows = chart_of(compare(*runs))
    assert len(panel.lines) == len(rows) == MOST_CURVES
    assert rows[0].name == "num_envs=9"
    assert f"best {MOST_CURVES} of 9 groups" in panel.title


def test_the_same_comparison_is_the_same_file(two_groups: list[Path], tmp_path: Path) -> None:
    for name in ("a.svg", "b.svg"):
        save_comparison(compare(*two_groups), tmp_path / name)
    assert (tmp_path / "a.svg").read_bytes() == (tmp_path / "b.svg").read_bytes()
    with pytest.raises(ConfigError, match="Cannot write"):
        save_comparison(compare(*two_groups), tmp_path / "missing" / "a.svg")
