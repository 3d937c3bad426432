"""Sinks with the real libraries, offline; a failing one never stops training."""

from __future__ import annotations

import csv
import struct
import time

import pytest

from briskrl.core.errors import ConfigError, StorageError
from briskrl.training.loop import resume, train
from briskrl.training.reporter import SilentReporter
from briskrl.training.sinks import csv_sink, factory
from briskrl.training.sinks.base import GuardedSink
from briskrl.training.sinks.csv_sink import CsvSink
from briskrl.training.sinks.tags import tagged
from tests.training.runs import fused_config, policy_hash


class Notes(SilentReporter):
    def __init__(self):
        self.notes = []

    def on_note(self, text):
        self.notes.append(text)


def config(run_dir, *log, **options):
    given = {"env": "snake", "steps": 3000, "eval_episodes": 4, "log_seconds": 0.02, **options}
    return fused_config(run_dir, "dqn", log=log, **given)


def test_tags_are_those_of_other_libraries():
    row = {
        "env_steps": 5,
        "mean_return": 1.5,
        "entropy": 0.7,
        "loss": None,
        "phases": {"act": 2.0},
        "steps_per_s": 100,
        "eval_mean_return": 3.0,
    }
    assert tagged(row, "brisk") == {
        "mean_return": 1.5,
        "entropy": 0.7,
        "phases/act": 2.0,
        "steps_per_s": 100.0,
        "eval_mean_return": 3.0,
    }
    assert tagged(row, "sb3") == {
        "rollout/ep_rew_mean": 1.5,
        "train/entropy_loss": -0.7,
        "brisk/phases/act": 2.0,
        "time/fps": 100.0,
        "eval/mean_reward": 3.0,
    }
    assert tagged(row, "cleanrl") == {
        "charts/episodic_return": 1.5,
        "losses/entropy": 0.7,
        "brisk/phases/act": 2.0,
        "charts/SPS": 100.0,
        "eval/episodic_return": 3.0,
    }


def test_a_table_grows_by_rows_and_columns(tmp_path):
    sink = CsvSink(tmp_path)
    sink.write([(1, {"a": 1.0}), (2, {"a": 2.0})])
    CsvSink(tmp_path).write([(3, {"a": 3.0})])
    sink = CsvSink(tmp_path)
    sink.write([(4, {"a": 4.0, "b": 0.5})])
    sink.rewind(4)
    sink.write([(5, {"b": 1.5})])
    with (tmp_path / csv_sink.FILE).open(newline="") as file:
        rows = list(csv.DictReader(file))
    assert [(row["env_steps"], row["a"], row["b"]) for row in rows] == [
        ("1", "1.0", ""),
        ("2", "2.0", ""),
        ("3", "3.0", ""),
        ("5", "", "1.5"),
    ]


def test_a_run_writes_a_table_and_resumes_it(tmp_path):
    run = tmp_path / "run"
    train(config(run, "csv", tags="sb3"))
    with (run / "metrics.csv").open(newline="") as file:
        rows = list(csv.DictReader(file))
    assert rows[-1]["env_steps"] == "3008"
    assert float(rows[-1]["rollout/ep_rew_mean"])
    resume(run, steps=4000)
    with (run / "metrics.csv").open(newline="") as file:
        steps = [int(row["env_steps"]) for row in csv.DictReader(file)]
    assert steps == sorted(steps)
    assert steps[-1] == 4000


def test_tensorboard_shows_settings_results_and_a_game(tmp_path):
    accumulator = pytest.importorskip("tensorboard.backend.event_processing.event_accumulator")
    run = tmp_path / "run"
    train(config(run, "tensorboard", tags="cleanrl", eval_every=1000))
    events = accumulator.EventAccumulator(str(run / "tensorboard"))
    events.Reload()
    tags = events.Tags()
    scalars = {"charts/episodic_return", "charts/SPS", "eval/episodic_return"}
    assert scalars | {"final/eval_mean_score"} <= set(tags["scalars"])
    assert tags["images"] == ["game"]
    assert events.Images("game")[0].encoded_image_string[:3] == b"GIF"
    hparams = events.summary_metadata["_hparams_/session_start_info"]
    assert b"algo_config.lr" in hparams.plugin_data.content


def wandb_records(data):
    """The records of a .wandb file, which has the form of LevelDB's logs."""
    at, whole = 7, b""
    while at + 7 <= len(data):
        if 32768 - at % 32768 < 7:
            at += 32768 - at % 32768
            continue
        length, kind = struct.unpack("<HB", data[at + 4 : at + 7])
        whole += data[at + 7 : at + 7 + length]
        at += 7 + length
        # A record is whole (1), or its last part (4) has been read.
        if kind in (1, 4):
            yield whole
            whole = b""


def test_wandb_gets_a_run_offline(tmp_path, monkeypatch):
    wandb = pytest.importorskip("wandb")
    from wandb.proto import wandb_internal_pb2

    for name in ("WANDB_MODE", "WANDB_API_KEY"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("WANDB_MODE", "offline")
    run = tmp_path / "run"
    reporter = Notes()
    train(config(run, "wandb"), reporter=reporter)
    assert [note for note in reporter.notes if "--log wandb failed" in note] == []
    (path,) = (run / "wandb").glob("offline-run-*/run-*.wandb")

    def read() -> tuple[set[str], set[str], set[str]]:
        keys, settings, summary = set(), set(), set()
        for data in wandb_records(path.read_bytes()):
            record = wandb_internal_pb2.Record()
            record.ParseFromString(data)
            keys |= {item.key or item.nested_key[0] for item in record.history.item}
            settings |= {item.key for item in record.run.config.update}
            summary |= {item.key or item.nested_key[0] for item in record.summary.update}
        return keys, settings, summary

    # A process of wandb writes, on a busy machine also after the run has ended.
    end = time.monotonic() + 60
    while True:
        keys, settings, summary = read()
        if "final/eval_mean_score" in keys | summary or time.monotonic() > end:
            break
        time.sleep(0.2)
    assert {"mean_return", "steps_per_s", "env_steps", "game"} <= keys
    assert "algo_config.lr" in settings
    assert "final/eval_mean_score" in keys | summary
    assert wandb.run is None


def test_mlflow_gets_a_run_in_the_folder(tmp_path, monkeypatch):
    tracking = pytest.importorskip("mlflow.tracking")
    pytest.importorskip("sqlalchemy")
    monkeypatch.delenv("MLFLOW_TRACKING_URI", raising=False)
    folder = tmp_path / "run"
    train(config(folder, "mlflow"))
    resume(folder, steps=3500)
    client = tracking.MlflowClient(f"sqlite:///{folder / 'mlflow' / 'mlflow.db'}")
    run_id = (folder / "mlflow" / "run_id.txt").read_text()
    found = client.get_run(run_id)
    assert found.info.status == "FINISHED"
    assert found.data.params["algo_config.net"] == "[32]"
    assert {"mean_return", "final/eval_mean_score"} <= set(found.data.metrics)
    steps = [point.step for point in client.get_metric_history(run_id, "steps_per_s")]
    assert steps[-1] == 3504
    assert [artifact.path for artifact in client.list_artifacts(run_id)] == ["game.gif"]


class Failing:
    """Fails in the n-th call."""

    def __init__(self, calls):
        self.calls = calls

    def write(self, *values):
        self.calls -= 1
        if self.calls < 0:
            raise ConnectionError("no route to host\nsecond line")

    rewind = finish = close = write


@pytest.mark.parametrize("calls", [0, 1])
def test_a_failing_sink_is_reported_once_and_stops_nothing(tmp_path, monkeypatch, calls):
    monkeypatch.setattr(factory, "_opener", lambda name, context: lambda: Failing(calls))
    reporter = Notes()
    result = train(config(tmp_path / "run", "wandb"), reporter=reporter)
    assert result.stopped == "finished"
    failures = [note for note in reporter.notes if "--log wandb failed" in note]
    assert failures == ["--log wandb failed: no route to host. Training continues without it."]
    train(config(tmp_path / "plain"))
    assert policy_hash(tmp_path / "run") == policy_hash(tmp_path / "plain")


def test_a_sink_that_cannot_be_opened_is_off():
    notes = []

    def open_sink():
        raise RuntimeError

    sink = GuardedSink("mlflow", open_sink, "brisk", notes.append)
    sink.write([{"env_steps": 1, "loss": 2.0}])
    sink.rewind(3)
    sink.close()
    assert sink.is_off
    assert len(notes) == 1
    assert "RuntimeError" in notes[0]


def test_a_full_disk_is_left_to_the_log():
    class Full(Failing):
        def write(self, points):
            raise StorageError("disk full")

    sink = GuardedSink("csv", lambda: Full(0), "brisk", print)
    with pytest.raises(StorageError):
        sink.write([{"env_steps": 1, "loss": 2.0}])
    assert not sink.is_off


def test_a_missing_package_is_named_before_anything_is_written(tmp_path, monkeypatch):
    monkeypatch.setattr(factory, "find_spec", lambda name: None)
    with pytest.raises(ConfigError, match=r"pip install 'briskrl\[wandb\]'"):
        train(config(tmp_path / "run", "wandb"))
    assert not (tmp_path / "run").exists()
