"""A run as a job: its result depends on its content alone, and comes once."""

from __future__ import annotations

import pickle
import shutil
import threading
from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from briskrl.cluster.job import JobContext, JobDone
from briskrl.cluster.job_folder import open_job_folder
from briskrl.cluster.local import LocalExecutor
from briskrl.cluster.mirror import Mirror
from briskrl.cluster.run_job import RESULT, Evaluation, RunJob
from briskrl.cluster.run_reports import JobReporter, PublishHook
from briskrl.cluster.storage import FolderStore
from briskrl.core.errors import ConfigError, StorageError
from briskrl.core.rng import derive_seed
from briskrl.training.evaluate import evaluate
from briskrl.training.loop import train
from briskrl.training.storage.lock import FolderLock
from tests.cluster.executor_contract import end_of, run_all
from tests.training.runs import fused_config, policy_hash

EPISODES = Evaluation(episodes=6, seed=3)
KEYS = {
    *("env_steps", "episodes", "updates", "mean_return", "mean_score"),
    *("wall_s", "cpu_s", "steps_per_s"),
    *("score", "score_low", "score_high", "return", "eval_episodes"),
    *("model_sha256", "stopped", "briskrl"),
}
CLOCKS = {"wall_s", "cpu_s", "steps_per_s"}


def config(**options: Any) -> Any:
    return fused_config(Path("unused"), checkpoint_steps=800, log_seconds=0.02, **options)


def job(name: str = "run", **options: Any) -> RunJob:
    return RunJob(name, config(**options), EPISODES)


def context(folder: Path, report: Callable[[Mapping[str, Any]], None] = [].append) -> JobContext:
    folder.mkdir(parents=True, exist_ok=True)
    return JobContext(folder, report)


def without_times(result: Mapping[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in result.items() if name not in CLOCKS}


@pytest.fixture(scope="module")
def whole(tmp_path_factory) -> tuple[Path, dict[str, Any]]:
    """The folder and the result of a job that was never interrupted."""
    folder = tmp_path_factory.mktemp("whole") / "run"
    return folder, job().run(context(folder))


def test_the_result_describes_training_and_evaluation(whole):
    folder, result = whole
    assert result.keys() == KEYS
    assert result["env_steps"] == 3008
    assert result["stopped"] == "finished"
    assert result["model_sha256"] == policy_hash(folder)
    assert result["score_low"] <= result["score"] <= result["score_high"]
    assert result["wall_s"] > 0
    assert result["steps_per_s"] == pytest.approx(result["env_steps"] / result["wall_s"])


def test_the_model_is_that_of_a_plain_run(whole, tmp_path: Path):
    train(replace(config(), run_dir=str(tmp_path / "plain")))
    assert whole[1]["model_sha256"] == policy_hash(tmp_path / "plain")


def test_the_policy_is_evaluated_with_its_own_seed(whole):
    folder, result = whole
    found = evaluate(folder, episodes=6, seed=3)
    assert result["score"] == found.mean_score
    assert result["return"] == found.mean_return
    assert result["eval_episodes"] == 6
    assert result["score"] != evaluate(folder, episodes=6, seed=4).mean_score


@pytest.mark.parametrize("seed", [0, 3, 5])
def test_no_game_of_the_evaluation_is_one_of_training(seed: int):
    # Environment i of a run and episode k of an evaluation have the seeds start + i and start + k.
    starts = derive_seed(seed, "env"), derive_seed(seed, "evaluate")
    assert abs(starts[0] - starts[1]) > 1_048_576


def test_a_finished_job_is_not_trained_again(whole):
    folder, result = whole
    (folder / "policy" / "model.safetensors").rename(folder / "hidden")
    try:
        assert job().run(context(folder)) == result
    finally:
        (folder / "hidden").rename(folder / "policy" / "model.safetensors")


def test_the_same_job_with_other_records_is_the_same_job(whole):
    folder, result = whole
    records = replace(config(), log_seconds=0.5, keep_checkpoints=3, checkpoint_steps=0, tags="sb3")
    other = RunJob("other", records, EPISODES)
    assert other.run(context(folder)) == result


def test_another_evaluation_does_not_train_again(whole, tmp_path: Path):
    folder, result = copy_of(whole, tmp_path)
    more = replace(job(), evaluation=Evaluation(episodes=9, seed=3)).run(context(folder))
    assert more["eval_episodes"] == 9
    assert more["model_sha256"] == result["model_sha256"]


def copy_of(whole: tuple[Path, dict[str, Any]], tmp_path: Path) -> tuple[Path, dict[str, Any]]:
    shutil.copytree(whole[0], tmp_path / "run")
    return tmp_path / "run", whole[1]


@pytest.mark.parametrize(
    ("options", "text"),
    [
        ({"seed": 6}, "seed = 6 (was 5)"),
        ({"steps": 2000}, "steps = 2000 (was 3000)"),
        ({"threads": 2}, "threads = 2 (was 1)"),
        ({"algo_config": {"lr": 0.02}}, "algo_config.lr"),
        ({"env": "cartpole"}, "env = 'cartpole' (was 'snake')"),
    ],
)
def test_a_folder_with_a_run_of_other_settings_is_refused(whole, tmp_path, options, text):
    folder, _ = copy_of(whole, tmp_path)
    before = (folder / "config.toml").read_bytes()
    with pytest.raises(ConfigError, match="run with other settings") as error:
        job(**options).run(context(folder))
    assert text in str(error.value)
    assert (folder / "config.toml").read_bytes() == before
    assert (folder / RESULT).exists()


def test_a_run_that_was_begun_otherwise_is_continued(whole, tmp_path: Path):
    folder = tmp_path / "begun"
    train(replace(config(), steps=1500, run_dir=str(folder)))
    text = (folder / "config.toml").read_text().replace("steps = 1500", "steps = 3000")
    (folder / "config.toml").write_text(text)
    found = RunJob.in_folder(folder, EPISODES)
    assert found.name == "begun"
    assert without_times(found.run(context(folder))) == without_times(whole[1])


def test_a_run_that_lost_its_last_rows_has_the_same_result(whole, tmp_path: Path):
    # As if it was killed after its last checkpoint, before the row of the metrics behind it.
    folder, result = copy_of(whole, tmp_path)
    (folder / RESULT).unlink()
    rows = (folder / "metrics.jsonl").read_text().splitlines(keepends=True)
    (folder / "metrics.jsonl").write_text("".join(rows[:-1]))
    assert without_times(job().run(context(folder))) == without_times(result)
    (folder / RESULT).unlink()
    (folder / "metrics.jsonl").unlink()
    again = job().run(context(folder))
    assert without_times(again) == without_times(result)
    assert again["wall_s"] is None
    assert again["steps_per_s"] is None


class Lost(Exception):  # noqa: N818
    """Ends an attempt at a report, without saving."""


def test_a_lost_run_continues_from_its_copy_elsewhere(whole, tmp_path: Path):
    store = FolderStore(tmp_path / "store")

    def attempt(number: int) -> dict[str, Any]:
        def report(values: Mapping[str, Any]) -> None:
            if values.get("env_steps", 0) > 1000 * number and number < 3:
                raise Lost

        place = tmp_path / f"machine-{number}"
        with open_job_folder(place, "run", store) as folder:
            return job().run(JobContext(folder.path, report, folder.publish))

    for number in (1, 2):
        with pytest.raises(Lost):
            attempt(number)
    begun = Mirror(store, "run", tmp_path / "look")
    begun.restore()
    assert (tmp_path / "look" / "checkpoints" / "LATEST").exists()
    assert without_times(attempt(3)) == without_times(whole[1])
    assert (tmp_path / "store" / "run" / RESULT).exists()


def test_the_number_of_slots_does_not_change_a_result(whole, tmp_path: Path):
    with LocalExecutor(tmp_path, slots=3) as executor:
        events = run_all(executor, [job("one"), job("two")])
    for name in ("one", "two"):
        assert isinstance(end_of(events, name), JobDone)
        assert without_times(end_of(events, name).result) == without_times(whole[1])


def test_a_job_can_be_pickled_and_has_no_open_choices():
    made = RunJob("run", config(threads="auto"))
    assert pickle.loads(pickle.dumps(made)) == made
    assert made.config.threads == made.num_cpus > 0
    assert made.config.run_dir is None


def test_resources_follow_from_the_settings():
    assert job(overlap=True).num_cpus == 2
    assert job().num_gpus == 0
    on_gpu = replace(config(), device="cuda", engine="torch")
    assert RunJob("run", on_gpu).num_gpus == 1
    assert RunJob("run", on_gpu, num_gpus=0.5).num_gpus == 0.5


def test_a_job_waits_for_the_process_of_a_lost_attempt(whole, tmp_path: Path):
    folder = tmp_path / "run"
    folder.mkdir()
    lock = FolderLock(folder / "lock")
    lock.acquire()
    timer = threading.Timer(0.5, lock.release)
    timer.start()
    result = job().run(context(folder))
    timer.join()
    assert without_times(result) == without_times(whole[1])


def test_progress_has_values_and_other_reports_are_signs_of_life(whole, tmp_path: Path):
    reports: list[Mapping[str, Any]] = []
    job().run(context(tmp_path / "run", reports.append))
    values = [report for report in reports if report]
    assert values
    assert len(values) < len(reports)
    assert set(values[-1]) == {
        *("env_steps", "fraction", "mean_score", "mean_return", "steps_per_s"),
        *("wall_s", "cpu_s"),
    }
    assert values[-1]["fraction"] == 1.0


def test_notes_are_signs_of_life():
    # Pretraining takes minutes and has no progress of the run to report.
    reports: list[Mapping[str, Any]] = []
    JobReporter(reports.append).on_note("pretraining: 64 of 20,000 updates")
    assert reports == [{}]


def test_a_checkpoint_that_could_not_be_copied_does_not_stop_training(tmp_path: Path):
    calls: list[int] = []

    def publish() -> None:
        calls.append(len(calls))
        raise StorageError("no connection")

    result = train(replace(config(), run_dir=str(tmp_path / "run")), hooks=[PublishHook(publish)])
    assert result.stopped == "finished"
    assert len(calls) == 3


def test_long_evaluations_show_signs_of_life(whole, tmp_path: Path, monkeypatch):
    folder, _ = copy_of(whole, tmp_path)
    (folder / RESULT).unlink()
    monkeypatch.setattr("briskrl.cluster.life_signs.EVERY_S", 0.0)
    reports: list[Mapping[str, Any]] = []
    job().run(context(folder, reports.append))
    assert len(reports) > 10
    assert not any(reports)
