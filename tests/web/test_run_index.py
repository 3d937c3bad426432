"""Which runs the dashboard knows, and when their rows change."""

from __future__ import annotations

import json
import os
import shutil
import socket
import time
from pathlib import Path

import pytest

from briskrl.web import run_index
from briskrl.web.run_index import SILENT_S, RunIndex
from tests.web.dashboards import make_run


@pytest.fixture(autouse=True)
def look_at_everything(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(run_index, "SETTLED_S", 0.0)


def found(index: RunIndex) -> dict[str, str]:
    return {row["name"]: row["status"] for row in index.changes_since(-1)[0]}


def test_runs_are_found_below_folders_and_sweeps(tmp_path: Path) -> None:
    make_run(tmp_path / "one")
    make_run(tmp_path / "machine" / "two")
    sweep = tmp_path / "sweep"
    make_run(sweep / "runs" / "000-seed0")
    (sweep / "sweep.toml").write_text("")
    (tmp_path / "loop").symlink_to(tmp_path)
    index = RunIndex([tmp_path])
    assert index.scan()
    assert set(found(index)) == {"one", "machine/two", "sweep/runs/000-seed0"}
    row = next(row for row in index.changes_since(-1)[0] if row["sweep"])
    assert index.sweep_folders()[row["sweep"]] == sweep


def test_a_run_folder_itself_can_be_watched_before_it_exists(tmp_path: Path) -> None:
    index = RunIndex([tmp_path / "later"])
    index.scan()
    assert found(index) == {}
    make_run(tmp_path / "later")
    assert index.scan()
    assert found(index) == {"later": "finished"}


def test_only_rows_that_changed_are_sent_again(tmp_path: Path) -> None:
    first, second = make_run(tmp_path / "first"), make_run(tmp_path / "second")
    index = RunIndex([tmp_path])
    index.scan()
    seen = index.version
    assert not index.scan()
    status = json.loads((first / "status.json").read_text()) | {"env_steps": 77}
    (first / "status.json").write_text(json.dumps(status))
    assert index.scan()
    rows, gone = index.changes_since(seen)
    assert [(row["name"], row["env_steps"]) for row in rows] == [("first", 77)]
    assert gone == []
    shutil.rmtree(second)
    seen = index.version
    assert index.scan()
    assert len(index.changes_since(seen)[1]) == 1
    assert set(found(index)) == {"first"}


def test_a_log_that_grows_changes_the_row(tmp_path: Path) -> None:
    run = make_run(tmp_path / "run")
    index = RunIndex([tmp_path])
    index.scan()
    before = index.entries()[0].row["data_version"]
    with (run / "metrics.jsonl").open("a") as file:
        file.write("{}\n")
    assert index.scan()
    assert index.entries()[0].row["data_version"] > before


def test_a_run_whose_process_was_killed_stops_running_although_no_file_changes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    run = make_run(tmp_path / "run")
    (run / "lock").write_text(json.dumps({"pid": os.getpid(), "host": socket.gethostname()}))
    index = RunIndex([tmp_path])
    index.scan()
    assert found(index) == {"run": "running"}
    monkeypatch.setattr("briskrl.training.storage.run_files.process_exists", lambda pid: False)
    assert index.scan()
    assert found(index) == {"run": "finished"}


def test_an_old_copy_of_a_run_of_another_machine_is_silent(tmp_path: Path) -> None:
    run = make_run(tmp_path / "run")
    (run / "lock").write_text(json.dumps({"pid": 1, "host": "another-machine"}))
    index = RunIndex([tmp_path])
    index.scan()
    assert found(index) == {"run": "running"}
    long_ago = time.time() - SILENT_S - 10
    os.utime(run / "status.json", (long_ago, long_ago))
    index.scan()
    assert found(index) == {"run": "silent"}


@pytest.mark.parametrize("content", ["", "not toml [", "env = 3", "\x00"])
def test_damaged_runs_are_listed(tmp_path: Path, content: str) -> None:
    run = make_run(tmp_path / "run")
    (run / "config.toml").write_text(content)
    (run / "status.json").write_text("{torn")
    index = RunIndex([tmp_path])
    index.scan()
    assert index.entries()[0].row["damaged"]


def test_ids_are_no_paths_and_stay_the_same(tmp_path: Path) -> None:
    make_run(tmp_path / "run")
    first, second = RunIndex([tmp_path]), RunIndex([tmp_path])
    first.scan()
    second.scan()
    (run_id,) = (entry.id for entry in first.entries())
    assert run_id.isalnum()
    assert second.folder(run_id) == tmp_path / "run"
    for other in ("run", "../run", str(tmp_path / "run"), ""):
        assert second.folder(other) is None
