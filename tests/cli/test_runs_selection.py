"""`brisk runs` sorts, filters, deletes and exports runs by their facts and settings."""

from __future__ import annotations

import csv
import json
import os
import socket
from pathlib import Path

import pytest
from pyarrow import parquet

from briskrl.cli.main import main

CONFIG = """env = "{env}"
algo = "{algo}"
steps = 1000
seed = {seed}
[algo_config]
lr = {lr}
net = [64, 32]
[env_config]
obs = "flood"
"""


@pytest.fixture
def runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    for name, env, algo, seed, lr, score in (
        ("a", "snake", "ppo", 0, 0.001, 40.5),
        ("b", "snake", "dqn", 1, 0.0005, 12.0),
        ("c", "gym:CartPole-v1", "ppo", 2, 0.001, 475.0),
        ("d", "snake", "ppo", 3, 0.01, None),
    ):
        folder = tmp_path / "runs" / name
        folder.mkdir(parents=True)
        (folder / "config.toml").write_text(CONFIG.format(env=env, algo=algo, seed=seed, lr=lr))
        if score is not None:
            status = {"env_steps": 1000, "mean_score": score}
            if name == "a":
                status["best_evaluation"] = {"mean_score": 44.0}
            (folder / "status.json").write_text(json.dumps(status))
            meta = {"exit_reason": "finished", "final_score": score}
            (folder / "meta.json").write_text(json.dumps(meta))
    return tmp_path / "runs"


def names(capsys: pytest.CaptureFixture[str], *words: str) -> list[str]:
    assert main(["runs", *words, "--json"]) == 0
    return [run["name"] for run in json.loads(capsys.readouterr().out)["runs"]]


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        (("--sort", "score"), ["b", "a", "c", "d"]),
        (("--sort", "-score"), ["c", "a", "b", "d"]),
        (("--sort", "-seed"), ["d", "c", "b", "a"]),
        (("--sort", "algo", "--filter", "score>0", "--filter", "env=snake"), ["b", "a"]),
        (("--filter", "score>40", "--sort", "seed"), ["a", "c"]),
        (("--filter", "lr=1e-3", "--sort", "seed"), ["a", "c"]),
        (("--filter", "algo_config.lr<=0.001", "--sort", "seed"), ["a", "b", "c"]),
        (("--filter", "env=gym:*"), ["c"]),
        (("--filter", "status!=finished"), ["d"]),
        (("--filter", "net=64,32", "--sort", "seed"), ["a", "b", "c", "d"]),
        (("--filter", "best_score>=44"), ["a"]),
        (("--filter", "training<20"), ["b"]),
        (("--filter", "score>1000"), []),
    ],
)
def test_runs_are_selected_by_facts_and_settings(runs, capsys, words, expected) -> None:
    assert names(capsys, *words) == expected


@pytest.mark.parametrize(
    ("words", "problem"),
    [
        (("--sort", "scroe"), "'score'"),
        (("--filter", "algorithm=ppo"), "'algorithm'"),
        (("--filter", "score"), "NAME=VALUE"),
        (("--filter", "score>"), "NAME=VALUE"),
    ],
)
def test_mistakes_are_named(runs, capsys, words, problem) -> None:
    assert main(["runs", *words]) == 2
    assert problem in capsys.readouterr().err


def test_an_empty_selection_is_reported(runs, capsys) -> None:
    assert main(["runs", "--filter", "score>1000"]) == 0
    assert "No run meets these conditions." in capsys.readouterr().out


def test_runs_are_deleted_only_if_all_can_be(runs, capsys) -> None:
    owner = {"pid": os.getpid(), "host": socket.gethostname()}
    (runs / "b" / "lock").write_text(json.dumps(owner))
    assert main(["runs", "rm", "a", "b", "--yes"]) == 2
    assert "is running" in capsys.readouterr().err
    assert (runs / "a").is_dir()
    assert main(["runs", "rm", "a", "nothing", "--yes"]) == 2
    assert "not a run folder" in capsys.readouterr().err
    assert main(["runs", "rm", "a", "runs/a", "c", "--yes"]) == 0
    assert sorted(folder.name for folder in runs.iterdir()) == ["b", "d"]


def test_deleting_asks_first(runs, capsys, monkeypatch) -> None:
    assert main(["runs", "rm", "a"]) == 2
    assert "--yes" in capsys.readouterr().err
    monkeypatch.setattr("sys.stdin.isatty", lambda: True, raising=False)
    monkeypatch.setattr("builtins.input", lambda prompt: "n")
    assert main(["runs", "rm", "a"]) == 1
    assert (runs / "a").is_dir()
    monkeypatch.setattr("builtins.input", lambda prompt: "y")
    assert main(["runs", "rm", "a"]) == 0
    assert not (runs / "a").exists()


def test_a_link_is_deleted_without_its_target(runs) -> None:
    kept = runs.parent / "kept"
    (runs / "a").rename(kept)
    (runs / "link").symlink_to(kept)
    assert main(["runs", "rm", "link", "--yes"]) == 0
    assert not (runs / "link").is_symlink()
    assert (kept / "config.toml").is_file()


def test_a_table_has_a_row_per_run_and_a_column_per_setting(runs, capsys) -> None:
    assert main(["runs", "export", "--csv", "all.csv", "--sort", "seed"]) == 0
    with open("all.csv", newline="") as file:
        rows = list(csv.DictReader(file))
    assert [row["name"] for row in rows] == ["a", "b", "c", "d"]
    assert rows[0]["algo_config.lr"] == "0.001"
    assert rows[0]["algo_config.net"] == "64,32"
    assert rows[0]["best_score"] == "44.0"
    assert rows[3]["mean_score"] == ""
    words = ["--parquet", "some.parquet", "--filter", "env=snake", "--sort", "seed"]
    assert main(["runs", "export", *words]) == 0
    table = parquet.read_table("some.parquet").to_pydict()
    assert table["name"] == ["a", "b", "d"]
    assert table["mean_score"] == [40.5, 12.0, None]
    assert table["seed"] == [0, 1, 3]


def test_a_table_needs_one_format(runs, capsys, monkeypatch) -> None:
    assert main(["runs", "export"]) == 2
    assert "--csv" in capsys.readouterr().err
    monkeypatch.setitem(__import__("sys").modules, "pyarrow", None)
    assert main(["runs", "export", "--parquet", "x.parquet"]) == 2
    assert "pip install" in capsys.readouterr().err
