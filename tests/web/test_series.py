"""Logs as bins: the same numbers as from the whole log, whatever its length, growth and damage."""

from __future__ import annotations

import json
import time
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from briskrl.plots.run_metrics import read_curve
from briskrl.web.run_index import RunIndex
from briskrl.web.series.bins import Bins
from briskrl.web.series.curve_sets import CurveAnswers, Wanted, curve_set, differences
from briskrl.web.series.line_source import BLOCK
from briskrl.web.series.log_series import SAMPLES, LogSeries
from briskrl.web.series.parse import JsonRows
from briskrl.web.series.phase_shares import phase_shares
from briskrl.web.series.run_series import RunSeries, SeriesCache
from tests.web.dashboards import make_run, write_logs

LATER = time.monotonic() + 1e6


def read(folder: Path) -> RunSeries:
    series = RunSeries(folder)
    series.advance(LATER)
    series.phases.advance(LATER)
    return series


@settings(deadline=None)
@given(
    st.lists(st.integers(1, 40), max_size=12),
    st.integers(4, 16),
    st.integers(0, 2**32 - 1),
)
def test_bins_hold_extremes_and_means_of_equal_numbers_of_rows(
    parts: list[int], capacity: int, seed: int
) -> None:
    values = np.random.default_rng(seed).normal(size=(sum(parts), 1))
    values[::7] = np.nan
    bins, begin = Bins(["v"], capacity), 0
    for part in parts:
        bins.append(values[begin : begin + part], np.arange(begin, begin + part))
        begin += part
    assert len(bins) <= capacity
    assert bins.rows == len(values)
    for number in range(len(bins)):
        rows = values[number * bins.width : (number + 1) * bins.width, 0]
        known = rows[~np.isnan(rows)]
        assert bins.begin[number] == number * bins.width
        expected = [known.min(), known.max(), known.mean()] if len(known) else [np.nan] * 3
        found = [bins.low("v")[number], bins.high("v")[number], bins.mean("v")[number]]
        np.testing.assert_allclose(found, expected)


def test_columns_that_come_later_have_no_values_before() -> None:
    bins = Bins(["a"])
    bins.append(np.ones((2, 1)), np.arange(2))
    bins.add_columns(["b"])
    bins.append(np.full((1, 2), 5.0), np.arange(2, 3))
    np.testing.assert_array_equal(bins.mean("b"), [np.nan, np.nan, 5.0])


def test_a_small_log_gives_the_curves_of_brisk_plot(tmp_path: Path) -> None:
    run = make_run(tmp_path / "run")
    places, values = read_curve(run, "loss", "wall_s")
    curve = read(run).curve("loss", "wall_s", 800)
    np.testing.assert_allclose(curve.x, places)
    np.testing.assert_allclose(curve.mean, values)
    assert curve.exact


def test_times_add_up_over_sessions(tmp_path: Path) -> None:
    run = make_run(tmp_path / "run", rows=50)
    with (run / "metrics.jsonl").open("a") as file:
        for step in (51_000, 52_000):
            wall = (step - 50_000) / 5e4
            file.write(
                f'{{"env_steps":{step},"wall_s":{wall},"cpu_s":{wall},"steps_per_s":5e4,"loss":1}}\n'
            )
    curve = read(run).curve("loss", "wall_s", 800)
    np.testing.assert_allclose(curve.x, read_curve(run, "loss", "wall_s")[0])
    assert np.all(np.diff(curve.x) > 0)


def test_only_what_is_new_is_read_and_a_torn_line_waits(tmp_path: Path) -> None:
    run = make_run(tmp_path / "run", rows=10)
    series = read(run)
    with (run / "metrics.jsonl").open("a") as file:
        file.write('{"env_steps":11000,"loss"')
    series.advance(LATER)
    assert (series.metrics.bins.rows, series.progress) == (10, 1.0)
    with (run / "metrics.jsonl").open("a") as file:
        file.write(":7.0}\n")
    series.advance(LATER)
    assert series.metrics.bins.rows == 11
    assert series.curve("loss", "env_steps", 800).mean[-1] == 7.0


def test_a_log_that_a_resume_has_cut_off_is_read_anew(tmp_path: Path) -> None:
    run = make_run(tmp_path / "run", rows=30)
    series = read(run)
    lines = (run / "metrics.jsonl").read_bytes().splitlines(keepends=True)
    (run / "metrics.jsonl").write_bytes(b"".join(lines[:10]))
    series.advance(LATER)
    assert series.metrics.bins.rows == 10
    (run / "metrics.jsonl").unlink()
    series.advance(LATER)
    assert series.metrics.bins.rows == 0


@pytest.mark.parametrize(
    "damage",
    [
        b"\xff\xfe\n",
        b"[1,2]\n",
        b'{"env_steps": tru\n',
        b'{"a":{"b":1}}\n',
        b"\n",
        b"7\n",
        b'"x"\n',
    ],
)
def test_damaged_lines_are_left_out(tmp_path: Path, damage: bytes) -> None:
    run = make_run(tmp_path / "run", rows=10)
    path = run / "metrics.jsonl"
    lines = path.read_bytes().splitlines(keepends=True)
    path.write_bytes(b"".join([*lines[:5], damage, *lines[5:]]))
    series = read(run)
    assert series.metrics.bins.rows == 10
    assert series.metrics.bad_lines == 1


def test_logs_that_are_no_files_are_empty(tmp_path: Path) -> None:
    run = make_run(tmp_path / "run", rows=10)
    for name in ("metrics.jsonl", "episodes.csv"):
        (run / name).unlink()
        (run / name).mkdir()
    assert read(run).names() == []


def test_a_long_log_is_shown_from_samples_until_it_is_read(tmp_path: Path) -> None:
    path = tmp_path / "metrics.jsonl"
    row = '{"env_steps":%d,"loss":%.6f,"name":"' + "x" * 100 + '"}\n'
    rows = 4 * BLOCK // len(row)
    path.write_text("".join(row % (step, step % 1000) for step in range(rows)))
    series = LogSeries(path, lambda head: JsonRows())
    series.advance(deadline=0.0)
    assert 0 < series.progress < 1
    preview = series.overview()
    assert preview.last("env_steps")[-1] > 0.99 * rows
    assert preview.rows <= SAMPLES * 100
    while series.progress < 1:
        series.advance(deadline=0.0)
    exact = series.overview()
    assert exact.rows == rows
    assert (exact.low("loss").min(), exact.high("loss").max()) == (0.0, 999.0)
    # A zoom has every row of its part.
    bins, whole = series.window(int(exact.begin[10]), int(exact.begin[12]))
    assert whole
    assert bins.rows >= 2 * exact.width


def test_a_zoom_shows_every_row_between_its_ends(tmp_path: Path) -> None:
    run = make_run(tmp_path / "run", rows=1)
    write_logs(run, rows=9000, first=2)
    series = read(run)
    assert len(series.curve("loss", "env_steps", 800).x) < 800
    curve = series.curve("loss", "env_steps", 800, (4_000_000, 4_100_000))
    inside = curve.x[(curve.x >= 4_000_000) & (curve.x <= 4_100_000)]
    np.testing.assert_array_equal(inside, np.arange(4_000_000, 4_100_001, 1000))


def test_groups_have_the_mean_of_their_runs(tmp_path: Path) -> None:
    for seed in range(3):
        make_run(tmp_path / f"run-{seed}", seed=seed)
    make_run(tmp_path / "other", lr=0.5)
    index = RunIndex([tmp_path])
    index.scan()
    answer = curve_set(index.entries(), SeriesCache(), Wanted(("loss",), "env_steps", "seeds"))
    lines = {line["name"]: line for line in answer["charts"][0]["lines"]}
    assert {name: line["runs"] for name, line in lines.items()} == {"lr=0.001": 3, "lr=0.5": 1}
    group = lines["lr=0.001"]
    assert group["mean"][-1] == pytest.approx(1.0, abs=0.01)
    assert group["low"][-1] < group["mean"][-1] < group["high"][-1]
    assert differences(index.entries())["names"] == ["algo_config.lr", "seed"]


def test_groups_of_several_algorithms_have_short_names(tmp_path: Path) -> None:
    for seed, algo in enumerate(("dqn", "dqn", "ppo")):
        config = make_run(tmp_path / f"run-{seed}", seed=seed) / "config.toml"
        own = "clip = 0.2\nepochs = 4\n" if algo == "ppo" else "tau = 0.5\n"
        config.write_text(config.read_text().replace("dqn", algo) + own)
    index = RunIndex([tmp_path])
    index.scan()
    answer = curve_set(index.entries(), SeriesCache(), Wanted(("loss",), "env_steps", "seeds"))
    lines = {line["name"]: line["runs"] for line in answer["charts"][0]["lines"]}
    assert lines == {"dqn": 2, "ppo": 1}


def test_phases_are_shares_of_the_time_since_the_bin_before(tmp_path: Path) -> None:
    found = phase_shares(read(make_run(tmp_path / "run")))
    assert found["names"] == ["update", "act"]
    assert found["shares"] == pytest.approx([0.75, 0.25])
    assert found["now"] == pytest.approx([0.75, 0.25])
    np.testing.assert_allclose(np.sum(found["over_time"], axis=0), 1.0)


def test_an_answer_is_kept_until_a_log_grows(tmp_path: Path) -> None:
    run = make_run(tmp_path / "run")
    index = RunIndex([tmp_path])
    index.scan()
    answers, wanted = CurveAnswers(SeriesCache()), Wanted(("loss",), "env_steps", "")
    first = answers.answer(index.entries(), wanted)
    assert answers.answer(index.entries(), wanted) is first
    assert answers.answer(index.entries(), Wanted(("loss",), "wall_s", "")) != first
    write_logs(run, rows=1, first=51)
    later = json.loads(answers.answer(index.entries(), wanted))
    assert later["charts"][0]["lines"][0]["x"][-1] == 51_000
