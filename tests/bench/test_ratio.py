"""Studies of the update ratio: plan, results file and figures."""

from __future__ import annotations

from pathlib import Path

import pytest

from briskrl.bench.ratio import (
    RatioBench,
    RatioRun,
    append_run,
    measure_ratios,
    read_runs,
    summarize,
)
from briskrl.bench.train_loop import Curve
from briskrl.core.errors import ConfigError
from briskrl.training.config import TrainConfig
from briskrl.training.resolve import complete


def tiny(**values: object) -> TrainConfig:
    settings = {"learning_starts": 100, "net": [8], "buffer_size": 4096}
    return complete(TrainConfig(num_envs=16, steps=800, algo_config=settings, **values))  # type: ignore[arg-type]


def bench(path: Path | None = None, **values: object) -> RatioBench:
    results = None if path is None else str(path)
    few = {"presets": ("debug", "quality"), "seeds": 1, "points": 2, "games": 4}
    return RatioBench(results=results, **(few | values))  # type: ignore[arg-type]


def curve(scores: list[float], cpu_s: float = 1.0) -> Curve:
    times = [cpu_s * (index + 1) for index in range(len(scores))]
    steps = [1000 * (index + 1) for index in range(len(scores))]
    return Curve(steps, scores, [2 * t for t in times], times, updates=10)


def test_updates_follow_the_preset() -> None:
    figures = measure_ratios(tiny(), bench(), lambda line: None)
    assert figures.presets["debug"].updates == int(700 * 0.004)
    assert figures.presets["quality"].updates == int(700 * 0.25)
    assert figures.presets["quality"].final_score.runs == 1


def test_a_study_continues_from_its_file_and_adds_seeds(tmp_path: Path) -> None:
    path, reported = tmp_path / "runs.jsonl", list[str]()
    first = measure_ratios(tiny(), bench(path), reported.append)
    assert len(reported) == 2
    more = measure_ratios(tiny(), bench(path, seeds=2), reported.append)
    assert len(reported) == 4
    again = measure_ratios(tiny(), bench(path, seeds=2), reported.append)
    assert len(reported) == 4
    assert again == more
    assert more.curves["debug"][0] == first.curves["debug"][0]
    assert len(read_runs(path)) == 4


def test_runs_with_other_settings_are_kept_apart(tmp_path: Path) -> None:
    path, reported = tmp_path / "runs.jsonl", list[str]()
    measure_ratios(tiny(), bench(path), reported.append)
    measure_ratios(tiny(env_config={"height": 6}), bench(path), reported.append)
    measure_ratios(tiny(), bench(path, games=5), reported.append)
    assert len(reported) == len(read_runs(path)) == 6


def test_an_incomplete_last_line_is_replaced(tmp_path: Path) -> None:
    path = tmp_path / "runs.jsonl"
    run = RatioRun("study", "snake", "dqn", "fast", 0, curve([1.0]))
    append_run(path, run)
    whole = path.read_bytes()
    path.write_bytes(whole + whole[:40])
    assert read_runs(path) == [run]
    append_run(path, run)
    assert path.read_bytes() == 2 * whole


def test_another_file_is_rejected_and_not_changed(tmp_path: Path) -> None:
    path = tmp_path / "other.jsonl"
    path.write_text('{"color": "blue"}\n')
    with pytest.raises(ConfigError, match=r"other\.jsonl is not a results file"):
        measure_ratios(tiny(), bench(path), lambda line: None)
    assert path.read_text() == '{"color": "blue"}\n'


def test_figures_are_means_over_seeds_and_count_runs_that_reached_the_score() -> None:
    runs = [
        RatioRun("s", "snake", "dqn", "fast", 0, curve([0.0, 10.0])),
        RatioRun("s", "snake", "dqn", "fast", 1, curve([0.0, 20.0], cpu_s=2.0)),
        RatioRun("s", "snake", "dqn", "fast", 2, curve([0.0, 3.0])),
    ]
    figures = summarize(runs, 2000, RatioBench(seeds=3, score=10.0)).presets["fast"]
    assert figures.final_score.mean == pytest.approx(11.0)
    assert figures.reached == 2
    assert figures.steps_to_score is not None
    assert figures.steps_to_score.mean == pytest.approx((2000 + 1500) / 2)
    assert figures.cpu_s_to_score is not None
    assert figures.cpu_s_to_score.mean == pytest.approx((2.0 + 3.0) / 2)
    assert figures.steps_per_cpu_s.mean == pytest.approx((1000 + 500 + 1000) / 3)


def test_the_default_score_is_most_of_the_way_to_the_best_preset() -> None:
    runs = [
        RatioRun("s", "wildfire", "dqn", "debug", 0, curve([-10.0, -5.0])),
        RatioRun("s", "wildfire", "dqn", "fast", 0, curve([-8.0, 0.0])),
    ]
    assert summarize(runs, 2000, RatioBench(seeds=1)).score == pytest.approx(-2.0)


def test_algorithms_without_a_ratio_are_rejected() -> None:
    with pytest.raises(ConfigError, match="has no --train-steps-ratio"):
        measure_ratios(complete(TrainConfig(algo="ppo", steps=10)), bench(), lambda line: None)
    with pytest.raises(ConfigError, match="--steps"):
        measure_ratios(complete(TrainConfig(episodes=10)), bench(), lambda line: None)
