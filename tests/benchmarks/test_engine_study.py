"""The study of both engines: statistics, results file, runs."""

from __future__ import annotations

import json
from dataclasses import asdict
from itertools import combinations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from PIL import Image, ImageColor

from benchmarks import engine_study as script
from briskrl.plots import PALETTE

SIZES = {"first": 0, "games": 200, "scale": 1.0}


def slow_rank_test(first, second):
    """The p-value by enumeration of all ways to choose the first sample."""
    numbers = np.array([*first, *second])
    ranks = np.array([(numbers < x).sum() + (numbers <= x).sum() + 1 for x in numbers])
    middle = len(first) * ranks.sum() / len(numbers)
    uneven = abs(ranks[: len(first)].sum() - middle)
    ways = [
        abs(ranks[list(indices)].sum() - middle) >= uneven - 1e-9
        for indices in combinations(range(len(numbers)), len(first))
    ]
    return np.mean(ways)


@given(
    first=st.lists(st.integers(0, 9), min_size=1, max_size=5),
    second=st.lists(st.integers(0, 9), min_size=1, max_size=5),
)
def test_the_rank_test_equals_enumeration(first, second):
    assert script.rank_test(first, second) == pytest.approx(slow_rank_test(first, second))


def test_the_rank_test_separates_different_samples_and_not_equal_ones():
    # Of 184,756 ways to choose ten of twenty, two are as uneven as this.
    assert script.rank_test(range(10), range(10, 20)) == pytest.approx(2 / 184_756)
    assert script.rank_test([5.0] * 10, [5.0] * 10) == 1


def test_p_values_are_adjusted_by_holms_rule():
    assert script.holm([0.04, 0.01, 0.03]) == pytest.approx([0.06, 0.03, 0.06])
    assert script.holm([0.9, 0.6]) == [1.0, 1.0]


def test_bands_include_the_mean_and_shrink_with_more_seeds():
    rng = np.random.default_rng(0)
    few, many = rng.normal(3, 1, (10, 4)), rng.normal(3, 1, (200, 4))
    for curves in (few, many):
        low, high = script.band(curves)
        assert (low < curves.mean(0)).all()
        assert (curves.mean(0) < high).all()
    assert (high - low < 0.4).all()


def test_the_engines_use_different_seeds():
    runs = list(script.plan([("snake", "dqn"), ("cartpole", "ppo")], **SIZES, seeds=10))
    assert len({run.name for run in runs}) == len(runs) == 40
    seeds = {name: {run.seed for run in runs if run.engine == name} for name in ("fused", "torch")}
    assert seeds["fused"].isdisjoint(seeds["torch"])
    assert [run.engine for run in runs] == ["fused"] * 20 + ["torch"] * 20


@pytest.mark.parametrize("engine", ["fused", "torch", "overlap"])
def test_a_run_has_scores_at_eight_points(engine):
    run = script.measure(script.Run("cartpole", "dqn", engine, 3, limit=16_384, games=5))
    assert run.steps == [2048 * point for point in range(1, 9)]
    assert all(score > 1 for score in run.scores)
    assert run.updates > 0
    assert run.cpu_s > 0


def test_known_runs_are_not_repeated_and_are_reported_as_table_and_chart(tmp_path, capsys):
    planned = script.plan([("cartpole", "ppo")], **SIZES, seeds=3)
    rng = np.random.default_rng(1)
    with (tmp_path / "runs.jsonl").open("w") as file:
        for run in planned:
            run.steps = list(range(100_000, 900_000, 100_000))
            run.scores = rng.normal(300 if run.engine == "fused" else 100, 5, 8).tolist()
            run.cpu_s = 2.0
            file.write(json.dumps(asdict(run)) + "\n")
    only = ("--seeds", "3", "--envs", "cartpole", "--algos", "ppo")
    script.main([str(tmp_path / "runs.jsonl"), *only, "--plot", str(tmp_path / "plot.png")])
    printed = capsys.readouterr().out
    cells = [cell.strip() for cell in printed.splitlines()[2].strip("|").split("|")]
    assert cells[:3] == ["cartpole", "ppo", "800 k"]
    # Two of the twenty ways to choose three of six are as uneven.
    assert cells[5:9] == ["0.100", "0.100", "0.20 / 0.20", "0 of 8"]
    script.main([str(tmp_path / "runs.jsonl"), *only, "--report"])
    assert capsys.readouterr().out == printed
    with Image.open(tmp_path / "plot.png") as picture:
        colors = {color[:3] for _, color in picture.getcolors(1 << 20)}
    assert {ImageColor.getrgb(color) for color in PALETTE[:2]} <= colors
