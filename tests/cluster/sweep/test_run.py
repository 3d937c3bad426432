"""Real sweeps on the local executor: results, failures, stops, and what a resume continues."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from briskrl.cluster import local
from briskrl.cluster.job import JobDone, JobEvent
from briskrl.cluster.settings import ExecutorConfig
from briskrl.cluster.sweep.ledger import LEDGER, read_ledger
from briskrl.cluster.sweep.outcome import SweepResult
from briskrl.cluster.sweep.run import read_result, resume_sweep, sweep
from briskrl.cluster.sweep.search import load_study
from briskrl.core.errors import ConfigError, RunFolderError
from briskrl.training.evaluate import load_policy, play_games
from briskrl.training.loop import train
from briskrl.training.resolve import load_config
from briskrl.training.storage.lock import FolderLock
from tests.cluster.sweep.small_sweeps import (
    ONE_JOB,
    TWO_JOBS,
    exact_results,
    moody_config,
    settings,
    tiny_config,
)
from tests.training.runs import policy_hash

GRID = {"grid": {"lr": "1e-3,1e-4"}, "seeds": 2}
SEARCH = {
    "search": "tpe",
    "trials": 3,
    "range": {"lr": "1e-4..1e-2:log"},
    "choice": {"net": "8|8,8"},
    "confirm_seeds": 2,
}


@pytest.fixture(scope="module")
def grid(tmp_path_factory: pytest.TempPathFactory) -> SweepResult:
    """A finished sweep over a grid."""
    folder = tmp_path_factory.mktemp("grid") / "sweep"
    return sweep(tiny_config(), settings(folder, **GRID), TWO_JOBS)


@pytest.fixture(scope="module")
def search(tmp_path_factory: pytest.TempPathFactory) -> SweepResult:
    """A finished sweep that searches."""
    folder = tmp_path_factory.mktemp("search") / "sweep"
    return sweep(tiny_config(), settings(folder, **SEARCH), ONE_JOB)


def stop_after(runs: int, folder: Path) -> Callable[[], Any]:
    """A stop request that comes when this many runs have ended."""

    def stop() -> Any:
        path = folder / LEDGER
        ended = sum(r.has_ended for r in read_ledger(folder)) if path.exists() else 0
        return "sigint" if ended >= runs else None

    return stop


def events(folder: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in (folder / LEDGER).read_text().splitlines()]


def test_every_run_of_a_grid_is_done_once_and_in_the_ledger(grid: SweepResult):
    assert grid.stopped == "finished"
    assert [(t.trial, dict(t.values), t.state) for t in grid.trials] == [
        (0, {"lr": 1e-3}, "done"),
        (1, {"lr": 1e-4}, "done"),
    ]
    done = [event["name"] for event in events(grid.info.folder) if event["event"] == "done"]
    assert sorted(done) == [f"runs/00{trial}-seed{seed}" for trial in (0, 1) for seed in (0, 1)]
    assert list(read_ledger(grid.info.folder)) == list(grid.records)
    assert read_result(grid.info.folder).stopped == "finished"


def test_a_run_of_a_sweep_is_the_run_of_its_config(grid: SweepResult, tmp_path: Path):
    record = grid.records[3]
    config = load_config(grid.info.folder_of(record) / "config.toml")
    assert (config.seed, config.algo_config.lr) == (1, 1e-4)
    train(replace(config, run_dir=str(tmp_path / "alone")))
    assert policy_hash(tmp_path / "alone") == policy_hash(grid.info.folder_of(record))


def test_the_best_trial_has_the_best_mean_and_its_settings_can_be_trained(grid: SweepResult):
    best = grid.best
    assert best is not None
    values = [trial.value("score") for trial in grid.trials]
    assert best.value("score") == max(values)
    config = load_config(grid.info.folder / "best.toml")
    assert config.algo_config.lr == best.values["lr"]
    assert config.run_dir is None


def test_the_result_is_one_json_object(grid: SweepResult):
    found = json.loads(json.dumps(grid.as_json()))
    assert found["runs"]["done"] == 4
    assert found["best"]["value"] == max(trial["value"] for trial in found["trials"])
    spread = found["trials"][0]["spread"]
    scores = [run["value"] for run in found["trials"][0]["runs"]]
    assert (spread["min"], spread["max"], spread["runs"]) == (min(scores), max(scores), 2)
    assert spread["iqm_low"] <= spread["iqm"] <= spread["iqm_high"]


def test_evaluation_episodes_are_the_same_for_all_trials_and_others_for_reruns(
    search: SweepResult,
):
    for record in search.records:
        policy = load_policy(search.info.folder_of(record))
        games = play_games(policy, episodes=4, seed=1 if record.confirms else 0)
        assert record.result is not None
        assert record.result["eval_episodes"] == 4
        assert record.result["score"] == games.score.mean()
    again = search.confirmation
    assert again is not None
    assert search.info.seeds == (0,)
    assert [record.seed for record in again.runs] == [1, 2]
    assert again.trial == search.best.trial


def test_a_finished_sweep_is_only_reported_again(search: SweepResult):
    before = events(search.info.folder)
    again = resume_sweep(search.info.folder)
    assert exact_results(again.records) == exact_results(search.records)
    new = [event["event"] for event in events(search.info.folder)[len(before) :]]
    assert new == ["begin", "end"]


def test_a_search_that_is_stopped_resumed_and_extended_ends_with_the_same_trials(
    search: SweepResult, tmp_path: Path
):
    folder = tmp_path / "sweep"
    fewer = settings(folder, **{**SEARCH, "trials": 2})
    first = sweep(tiny_config(), fewer, ONE_JOB, stop=stop_after(1, folder))
    assert first.stopped == "sigint"
    assert read_result(folder).stopped == "sigint"
    assert 1 <= first.count("done") < 3
    second = resume_sweep(folder, more_trials=1)
    assert second.stopped == "finished"
    assert exact_results(second.records) == exact_results(search.records)
    values = [trial.value for trial in load_study(folder).trials]
    assert values == [trial.value("score") for trial in second.trials]
    with pytest.raises(ConfigError, match="for grids"):
        resume_sweep(folder, retry_failed=True)


def test_trials_cannot_be_added_to_a_grid(grid: SweepResult):
    with pytest.raises(ConfigError, match="adds trials to a search"):
        resume_sweep(grid.info.folder, more_trials=1)


def test_one_driver_at_a_time(grid: SweepResult):
    lock = FolderLock(grid.info.folder / "lock")
    lock.acquire()
    try:
        with pytest.raises(RunFolderError, match="is being written"):
            resume_sweep(grid.info.folder)
    finally:
        lock.release()


def test_a_folder_that_exists_is_not_touched(grid: SweepResult):
    before = (grid.info.folder / LEDGER).read_bytes()
    with pytest.raises(RunFolderError, match="brisk sweep resume"):
        sweep(tiny_config(), settings(grid.info.folder), ONE_JOB)
    assert (grid.info.folder / LEDGER).read_bytes() == before


def test_a_failing_trial_fails_with_its_cause_and_the_sweep_goes_on(tmp_path: Path):
    moods = [{"mood": mood} for mood in ("raises", "fine", "dies")]
    executor = replace(ONE_JOB, retries=0)
    options = settings(tmp_path / "sweep", grid={"env_args": moods}, max_failures=2)
    found = sweep(moody_config(), options, executor)
    # Two failures, but not in a row.
    assert found.stopped == "finished"
    assert [trial.state for trial in found.trials] == ["failed", "done", "failed"]
    raises, _, dies = (trial.cause or "" for trial in found.trials)
    assert "the environment is broken" in raises
    assert "SIGKILL" in dies
    assert found.best.values == {"env_args": {"mood": "fine"}}
    assert found.first_cause is not None


@pytest.mark.slow
def test_a_trial_that_hangs_fails_and_the_sweep_goes_on(tmp_path: Path):
    moods = [{"mood": mood} for mood in ("hangs", "fine")]
    executor = ExecutorConfig(jobs=2, retries=0, job_timeout=30.0)
    found = sweep(moody_config(), settings(tmp_path / "sweep", grid={"env_args": moods}), executor)
    assert [trial.state for trial in found.trials] == ["failed", "done"]
    assert "reported nothing" in (found.trials[0].cause or "")


def test_too_many_failures_stop_a_sweep_and_a_resume_tries_them_again(tmp_path: Path):
    folder, repaired = tmp_path / "sweep", tmp_path / "repaired"
    config = moody_config(str(repaired))
    first = sweep(config, settings(folder, seeds=5, max_failures=2), ONE_JOB)
    assert first.stopped == "failures"
    assert (first.count("failed"), first.count("planned")) == (2, 3)
    assert "runs/000-seed0: " in first.first_cause
    assert "the environment is broken" in first.first_cause
    repaired.touch()
    second = resume_sweep(folder, retry_failed=True)
    assert (second.stopped, second.count("done")) == ("finished", 5)


class RepeatsResults(local.LocalExecutor):
    """Delivers every result twice, as a network may."""

    def wait(self, timeout_s: float | None = None) -> JobEvent | None:
        repeated: list[JobEvent] = self.__dict__.setdefault("repeated", [])
        if repeated:
            return repeated.pop()
        event = super().wait(timeout_s)
        if isinstance(event, JobDone):
            repeated.append(event)
        return event


def test_duplicate_results_are_noted_and_settings_that_do_not_fit_fail_their_trial_only(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(local, "LocalExecutor", RepeatsResults)
    options = {"search": "random", "trials": 4, "range": {"batch_size": "16..4000"}}
    executor = replace(ONE_JOB, storage=str(tmp_path / "disk"))
    found = sweep(
        tiny_config(steps=800), settings(tmp_path / "sweep", **options, max_failures=9), executor
    )
    assert found.stopped == "finished"
    assert {trial.state for trial in found.trials} == {"done", "failed"}
    for trial in found.trials:
        fits = trial.values["batch_size"] <= 1024
        assert trial.state == ("done" if fits else "failed")
        assert fits or "larger than buffer_size" in (trial.cause or "")
    done = found.count("done")
    kinds = [event["event"] for event in events(tmp_path / "sweep")]
    # The last event of the executor is not waited for.
    assert kinds.count("done") == done
    assert done - 1 <= kinds.count("ignored") <= done
    # The runs are in the storage, in a folder of this sweep.
    record = next(record for record in found.records if record.state == "done")
    folder = found.info.folder_of(record)
    assert folder == tmp_path / "disk" / "sweep" / record.name
    assert (folder / "result.json").is_file()


def test_a_sweep_stops_after_its_hours(tmp_path: Path):
    folder = tmp_path / "sweep"
    found = sweep(tiny_config(), settings(folder, seeds=2, budget_hours=1e-9), ONE_JOB)
    assert (found.stopped, found.count("planned")) == ("budget", 2)


def test_runs_that_score_low_are_pruned_and_their_other_seeds_are_not_trained(tmp_path: Path):
    options = {
        "search": "random",
        "trials": 8,
        # Random actions balance the pole longer than those of an untrained network.
        "range": {"epsilon_start": "0.05..1"},
        "seeds": 2,
        "prune": "median",
    }
    found = sweep(tiny_config(steps=1600), settings(tmp_path / "sweep", **options), ONE_JOB)
    pruned = [trial for trial in found.trials if trial.state == "pruned"]
    assert pruned
    for trial in pruned:
        assert "scored low" in (trial.runs[0].cause or "")
        assert not (found.info.folder_of(trial.runs[1]) / "result.json").exists()
    states = [trial.state.name for trial in load_study(tmp_path / "sweep").trials]
    assert [state == "PRUNED" for state in states] == [t.state == "pruned" for t in found.trials]
