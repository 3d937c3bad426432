"""`brisk runs` lists every run, whatever has become of the files of one of them."""

from __future__ import annotations

import json
import os
import socket
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from briskrl.cli.main import main

READ = ["config.toml", "status.json", "meta.json", "lock", "checkpoints/LATEST"]
"""Files that `brisk runs` reads; of the others it only looks at what kind of thing they are."""
LOGS = ["metrics.jsonl", "episodes.csv", "phases.jsonl"]
FOLDERS = ["checkpoints", "policy"]


def make_run(folder: Path) -> Path:
    (folder / "checkpoints" / "step_000000000050").mkdir(parents=True)
    (folder / "policy").mkdir()
    files = {
        "config.toml": 'env = "snake"\nalgo = "c51"\nsteps = 100\n',
        "status.json": json.dumps({"env_steps": 50, "total_steps": 100, "mean_score": 1.5}),
        "meta.json": json.dumps({"exit_reason": "sigint", "sessions": []}),
        "lock": json.dumps({"pid": 2**22 + 1, "host": socket.gethostname()}),
        "checkpoints/LATEST": "step_000000000050\n",
        "metrics.jsonl": '{"env_steps":50}\n',
        "episodes.csv": "env_steps,env\n",
        "phases.jsonl": '{"env_steps":50}\n',
    }
    for name, text in files.items():
        (folder / name).write_text(text)
    return folder


def deep(opening: str) -> Callable[[Path], object]:
    return lambda path: path.write_text(opening * 100_000)


def make_folder(path: Path) -> None:
    (path / "inside").mkdir(parents=True)


CONTENTS: dict[str, Callable[[Path], object]] = {
    "garbage": lambda path: path.write_bytes(bytes(range(256)) * 9),
    "null bytes": lambda path: path.write_bytes(bytes(500)),
    "torn": lambda path: path.write_text('{"env_steps": 5, "pi'),
    "list": lambda path: path.write_text('["env", "algo"]'),
    "text": lambda path: path.write_text('"text"'),
    "number": lambda path: path.write_text("1e999"),
    "null": lambda path: path.write_text("null"),
    "deep lists": deep("["),
    "deep objects": deep('{"a":'),
    "long number": lambda path: path.write_text("9" * 100_000),
    "17 MB": lambda path: path.write_bytes(b" " * 17_000_000),
}
KINDS: dict[str, Callable[[Path], object]] = {
    "folder": make_folder,
    "link to nowhere": lambda path: path.symlink_to("nowhere"),
    "link to itself": lambda path: path.symlink_to(path.name),
    "pipe": lambda path: os.mkfifo(path),
}
DAMAGES = [
    *((name, kind, make) for name in READ for kind, make in {**CONTENTS, **KINDS}.items()),
    *((name, "empty", Path.touch) for name in READ if name != "lock"),
    *((name, kind, make) for name in LOGS for kind, make in KINDS.items()),
    *((name, kind, KINDS[kind]) for name in FOLDERS for kind in KINDS if kind != "folder"),
    *((name, "file", Path.touch) for name in FOLDERS),
]


def listed(capsys: pytest.CaptureFixture[str], root: Path) -> dict[str, dict[str, object]]:
    """What `brisk runs --json` lists, by name; the table must list the same and mark the same."""
    assert main(["runs", "--root", str(root), "--json"]) == 0
    text = capsys.readouterr().out

    def refuse(constant: str) -> None:
        raise AssertionError(f"{constant} is not JSON")

    found = {run["name"]: run for run in json.loads(text, parse_constant=refuse)["runs"]}
    assert main(["runs", "--root", str(root)]) == 0
    lines = capsys.readouterr().out.splitlines()[1:]
    assert len(lines) == len(found)
    for line in lines:
        run = found[Path(line.split()[0]).name]
        assert ("damaged: " + ", ".join(run["damaged"]) in line) == bool(run["damaged"])
    return found


@pytest.mark.parametrize(
    ("name", "make"),
    [(name, make) for name, _, make in DAMAGES],
    ids=[f"{name}-{kind}" for name, kind, _ in DAMAGES],
)
def test_a_damaged_file_marks_its_run_and_hides_no_other(tmp_path, capsys, name, make):
    for run in ("before", "damaged", "after"):
        make_run(tmp_path / run)
    target = tmp_path / "damaged" / name
    if target.is_dir():
        target.rename(tmp_path / "damaged" / "away")
    else:
        target.unlink()
    make(target)
    found = listed(capsys, tmp_path)
    assert name in found["damaged"]["damaged"]
    for other in ("before", "after"):
        run = found[other]
        assert (run["env"], run["env_steps"], run["total_steps"]) == ("snake", 50, 100)
        assert (run["mean_score"], run["status"], run["damaged"]) == (1.5, "sigint", [])


WRONG_VALUES = [
    *(("status.json", "env_steps", value) for value in ("5", -1, 2.5, True, 10**400, [1], {})),
    *(("status.json", "total_steps", value) for value in ("many", 2**63, False)),
    *(("status.json", "mean_score", value) for value in ("good", float("nan"), 10**400, True, [])),
    *(("status.json", "mean_score", value) for value in (float("inf"), -float("inf"))),
    *(("meta.json", "exit_reason", value) for value in (5, ["finished"], {"a": 1})),
    *(("lock", "pid", value) for value in ("x", -1, 2**70, 1.5)),
    *(("lock", "host", value) for value in (5, [])),
]


@pytest.mark.parametrize(("name", "key", "value"), WRONG_VALUES)
def test_a_value_of_the_wrong_kind_marks_the_run(tmp_path, capsys, name, key, value):
    make_run(tmp_path / "good")
    path = make_run(tmp_path / "damaged") / name
    content = json.loads(path.read_text())
    path.write_text(json.dumps({**content, key: value}))
    found = listed(capsys, tmp_path)
    assert found["damaged"]["damaged"] == [name]
    assert found["good"]["damaged"] == []


def test_the_numbers_of_processes_that_cannot_exist_are_no_owners(tmp_path, capsys):
    for number, pid in enumerate((0, 2**31, 2**62)):
        owner = {"pid": pid, "host": socket.gethostname()}
        (make_run(tmp_path / str(number)) / "lock").write_text(json.dumps(owner))
    assert {run["status"] for run in listed(capsys, tmp_path).values()} == {"sigint"}


def test_a_config_with_values_of_other_kinds_marks_the_run(tmp_path, capsys):
    make_run(tmp_path / "good")
    config = make_run(tmp_path / "damaged") / "config.toml"
    for text in ("env = 5\nalgo = 'dqn'", "env = 'e'", "env = ['e']\nalgo = 1979-05-27"):
        config.write_text(text + "\nsteps = 'many'\n")
        assert listed(capsys, tmp_path)["damaged"]["damaged"] == ["config.toml"]


def test_a_checkpoint_that_is_gone_marks_the_run(tmp_path, capsys):
    run = make_run(tmp_path / "damaged")
    (run / "checkpoints" / "step_000000000050").rmdir()
    assert listed(capsys, tmp_path)["damaged"]["damaged"] == ["checkpoints/LATEST"]


@pytest.fixture
def ordinary_user() -> Iterator[Path]:
    """A folder; the test runs as a user whose permissions are checked, which root's are not."""
    with tempfile.TemporaryDirectory() as folder:
        Path(folder).chmod(0o777)
        before = os.geteuid()
        if before == 0:
            os.seteuid(65534)
        try:
            yield Path(folder)
        finally:
            os.seteuid(before)


def test_a_file_that_this_user_may_not_read_marks_the_run(ordinary_user, capsys):
    make_run(ordinary_user / "good")
    for name in ("status.json", "config.toml"):
        (make_run(ordinary_user / name) / name).chmod(0)
    (make_run(ordinary_user / "closed") / "checkpoints").chmod(0)
    found = listed(capsys, ordinary_user)
    assert found["good"]["damaged"] == []
    for name in ("status.json", "config.toml"):
        assert found[name]["damaged"] == [name]
    assert len(found) == 4


def test_a_folder_that_this_user_may_not_list_is_a_clear_error(ordinary_user, capsys):
    (ordinary_user / "closed").mkdir(mode=0)
    assert main(["runs", "--root", str(ordinary_user / "closed")]) == 2
    assert "Permission denied" in capsys.readouterr().err
