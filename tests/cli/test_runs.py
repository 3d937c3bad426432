"""`brisk runs` with run folders in any condition."""

from __future__ import annotations

import json
import os
import socket
from pathlib import Path

import pytest

from briskrl.cli.main import main
from briskrl.cli.targets import find_run, run_folders
from briskrl.core.errors import RunFolderError
from briskrl.training.storage.run_facts import describe_run


def make_run(folder: Path, **files: object) -> Path:
    folder.mkdir(parents=True)
    (folder / "config.toml").write_text('env = "snake"\nalgo = "c51"\nsteps = 100\n')
    for name, content in files.items():
        text = content if isinstance(content, str) else json.dumps(content)
        (folder / name.replace("_", ".")).write_text(text)
    return folder


def owner(pid: int, host: str | None = None) -> dict[str, object]:
    return {"pid": pid, "host": host or socket.gethostname()}


@pytest.mark.parametrize(
    ("files", "status"),
    [
        ({}, "empty"),
        ({"status_json": {"env_steps": 5}}, "killed"),
        ({"status_json": "{torn", "meta_json": {"exit_reason": "sigint"}}, "sigint"),
        ({"meta_json": {"exit_reason": "finished"}, "lock": ""}, "finished"),
        ({"lock": owner(os.getpid())}, "running"),
        ({"lock": owner(2**22 + 1), "status_json": {"env_steps": 5}}, "killed"),
        ({"lock": owner(1, "another-host")}, "running"),
        ({"lock": {"pid": "x"}}, "empty"),
    ],
)
def test_the_status_is_derived_from_the_files_that_exist(
    tmp_path: Path, files: dict[str, object], status: str
) -> None:
    found = describe_run(make_run(tmp_path / "r", **files))
    assert found["status"] == status
    assert (found["env"], found["algo"], found["total_steps"]) == ("snake", "c51", 100)


def test_a_damaged_config_does_not_hide_the_run(tmp_path: Path) -> None:
    folder = make_run(tmp_path / "r")
    (folder / "config.toml").write_bytes(b"\xff = [")
    assert describe_run(folder)["env"] is None


def test_runs_are_found_by_path_or_name_newest_first(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    for age, name in enumerate(["new", "old"]):
        folder = make_run(Path("runs") / name)
        os.utime(folder, (1e9 - age, 1e9 - age))
    (tmp_path / "runs" / "no-run").mkdir()
    assert [folder.name for folder in run_folders()] == ["new", "old"]
    assert find_run("old") == find_run("runs/old") == Path("runs/old")
    with pytest.raises(RunFolderError, match="Did you mean 'runs/new'"):
        find_run("runs/nwe")
    assert main(["runs"]) == 0
    assert len(capsys.readouterr().out.splitlines()) == 3


def test_no_runs_is_no_error_but_a_missing_root_is(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    assert main(["runs"]) == 0
    assert main(["runs", "--root", "elsewhere"]) == 2
    assert "no folder elsewhere" in capsys.readouterr().err


@pytest.mark.parametrize("words", [["envs"], ["algos"], ["envs", "snake"], ["algos", "rainbow"]])
def test_listings_print_one_json_object(
    words: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    assert main([*words, "--json"]) == 0
    listed = json.loads(capsys.readouterr().out)
    assert all({"summary", "options"} <= set(entry) for entry in listed.values())
    assert main(words) == 0
    assert next(iter(listed)) in capsys.readouterr().out


def test_presets_show_in_the_options_they_change(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["algos", "rainbow", "--json"]) == 0
    entry = json.loads(capsys.readouterr().out)["rainbow"]
    assert entry["options"]["atoms"] == entry["preset"]["atoms"] == 51


def test_settings_for_environments_stepped_in_python_are_listed(
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert main(["algos", "ppo"]) == 0
    assert "stepped in Python, such as gym:ID: num_envs=16  update_steps=256" in (
        capsys.readouterr().out
    )
    assert main(["algos", "dqn"]) == 0
    assert "stepped in Python" not in capsys.readouterr().out
