"""`brisk sweep` and `brisk train --seeds` as real commands."""

from __future__ import annotations

import json
import os
import pty
import signal
import subprocess
import sys
import time
from contextlib import suppress
from pathlib import Path

import pytest

from briskrl.cluster.sweep.ledger import LEDGER, read_ledger
from tests.cli.conftest import Brisk, environment
from tests.cli.test_import_cost import HEAVY

TINY = """\
env = "cartpole"
algo = "dqn"
steps = 3000
num_envs = 16
engine = "fused"

[algo_config]
net = [16]
batch_size = 16
buffer_size = 1024
learning_starts = 200
train_steps_ratio = 0.1

[sweep]
eval_episodes = 4

[executor]
jobs = 1
"""
PATIENCE_S = 300.0


@pytest.fixture
def tiny(tmp_path: Path) -> str:
    """A file with a short run, and the tables of the command."""
    (tmp_path / "tiny.toml").write_text(TINY)
    return "tiny.toml"


def test_a_grid_prints_lines_and_a_table_and_can_be_shown_and_resumed(
    brisk: Brisk, tiny: str, tmp_path: Path
):
    words = ("--grid", "lr=1e-3,1e-4", "--seeds", "2", "--sweep-dir", "s")
    done = brisk("sweep", "--config", tiny, *words)
    assert done.returncode == 0, done.stderr
    assert "sweep of dqn on cartpole (grid of lr), seeds 0, 1: 1 at a time, in s" in done.stdout
    assert "4/4  runs/001-seed1 lr=0.0001  done: score" in done.stdout
    assert "trial 1 lr=0.0001  score" in done.stdout
    assert "Finished: 4 runs done" in done.stdout
    assert "--confirm-seeds" in done.stdout
    assert "\x1b" not in done.stdout
    assert (tmp_path / "s" / "best.toml").is_file()

    shown = brisk("sweep", "show", "s")
    assert shown.returncode == 0
    assert shown.stdout.splitlines()[:4] == [
        line
        for line in done.stdout.splitlines()
        if line.startswith(("Finished", "  trial", "  0", "  1"))
    ]
    as_json = json.loads(brisk("sweep", "show", "s", "--json").stdout)
    assert (as_json["stopped"], as_json["runs"]["done"]) == ("finished", 4)
    assert [trial["values"] for trial in as_json["trials"]] == [{"lr": 1e-3}, {"lr": 1e-4}]

    resumed = brisk("sweep", "resume", "s", "--json")
    assert resumed.returncode == 0
    assert json.loads(resumed.stdout)["trials"] == as_json["trials"]


@pytest.mark.parametrize(
    ("number", "code"),
    [(signal.SIGINT, 130), pytest.param(signal.SIGTERM, 143, marks=pytest.mark.slow)],
)
def test_a_signal_saves_and_the_last_line_resumes(
    brisk: Brisk, tiny: str, tmp_path: Path, number: signal.Signals, code: int
):
    words = ["--config", tiny, "--seeds", "2", "--sweep-dir", "s", "--steps", "1e9"]
    words += ["--checkpoint-seconds", "1"]
    command = [sys.executable, "-m", "briskrl", "sweep", *words]
    process = subprocess.Popen(
        command, cwd=tmp_path, env=environment(), stdout=subprocess.PIPE, text=True
    )
    wait_for_checkpoint(tmp_path / "s")
    process.send_signal(number)
    printed, _ = process.communicate(timeout=PATIENCE_S)
    assert process.returncode == code
    assert printed.splitlines()[-1].endswith("sweep resume s")
    assert [record.state for record in read_ledger(tmp_path / "s")] == ["planned", "planned"]
    shown = brisk("sweep", "show", "s")
    assert "2 planned" in shown.stdout
    assert shown.stdout.splitlines()[-1].endswith("sweep resume s")


def wait_for_checkpoint(folder: Path) -> None:
    """Wait until the first run of a sweep has begun to train."""
    begin = time.monotonic()
    while not (folder / "runs" / "000-seed0" / "checkpoints" / "LATEST").exists():
        assert time.monotonic() - begin < PATIENCE_S
        time.sleep(0.02)


def test_too_many_failures_exit_with_4_and_the_first_cause(brisk: Brisk, tmp_path: Path):
    env = "gym:tests.cluster.sweep.small_sweeps:Moody-v0"
    words = ("--env-args", "mood=raises", "--backend", "sync", "--steps", "600", "--num-envs", "4")
    own = ("--seeds", "3", "--max-failures", "1", "--jobs", "1", "--sweep-dir", "s")
    done = brisk("sweep", env, *words, *own)
    assert done.returncode == 4
    assert "first failure: runs/000-seed0: " in done.stdout
    assert "the environment is broken" in done.stdout
    assert done.stdout.splitlines()[-1].endswith("sweep resume s --retry-failed")
    again = brisk("sweep", "resume", "s", "--retry-failed")
    assert again.returncode == 4
    assert [record.state for record in read_ledger(tmp_path / "s")].count("failed") == 1
    assert "Traceback" not in done.stderr


def test_a_dry_run_prints_the_plan_and_the_time_and_writes_nothing(
    brisk: Brisk, tiny: str, tmp_path: Path
):
    words = ("--grid", "lr=1e-3,1e-4", "--seeds", "5", "--jobs", "2", "--dry-run", "--json")
    done = brisk("sweep", "--config", tiny, *words)
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout)
    assert found["values"] == [{"lr": 1e-3}, {"lr": 1e-4}]
    estimate = found["estimate"]
    assert (estimate["trials"], estimate["runs"], estimate["jobs"]) == (2, 10, 2)
    seconds = [3000 / speed for speed in estimate["steps_per_s"]]
    assert len(seconds) == 2
    assert estimate["run_s"] == pytest.approx(sum(seconds) / 2)
    assert estimate["total_s"] == pytest.approx(5 * estimate["run_s"])
    assert sorted(path.name for path in tmp_path.iterdir()) == [tiny]


def test_the_plan_of_a_search_says_what_is_run_and_what_was_measured(brisk: Brisk, tiny: str):
    words = ("--search", "random", "--trials", "4", "--range", "lr=1e-4..1e-2:log", "--dry-run")
    done = brisk("sweep", "--config", tiny, *words, "--seeds", "1")
    assert done.returncode == 0, done.stderr
    assert "a search: 4 trials on 1 seed each" in done.stdout
    assert "steps    3,000 per run, 12,000 in all" in done.stdout
    assert "steps/s (the settings as given)" in done.stdout


def test_seeds_of_train_have_a_live_table_and_the_summary_that_a_paper_reports(
    brisk: Brisk, tmp_path: Path
):
    (tmp_path / "tiny.toml").write_text(TINY.partition("[sweep]")[0])
    words = ["--config", "tiny.toml", "--seeds", "3,7,11", "--run-dir", "s", "--jobs", "1"]
    ours, theirs = pty.openpty()
    process = subprocess.Popen(
        [sys.executable, "-m", "briskrl", "train", *words, "--eval-episodes", "4"],
        cwd=tmp_path,
        env=environment() | {"TERM": "xterm", "COLUMNS": "120", "LINES": "30"},
        stdout=theirs,
    )
    os.close(theirs)
    parts = []
    with suppress(OSError):
        while data := os.read(ours, 4096):
            parts.append(data)
    os.close(ours)
    assert process.wait(PATIENCE_S) == 0
    printed = b"".join(parts).decode()
    assert "0/3 runs" in printed
    assert "runs/000-seed7" in printed
    # The cursor is visible again.
    assert printed.rfind("\x1b[?25h") > printed.rfind("\x1b[?25l")
    ending = printed.partition("Finished: 3 runs done")[2]
    assert "95 % bootstrap interval" in ending
    assert "standard deviation" in ending
    assert "CPU time" in ending

    found = json.loads(brisk("sweep", "show", "s", "--json").stdout)
    assert found["seeds"] == [3, 7, 11]
    (trial,) = found["trials"]
    spread = trial["spread"]
    assert spread["runs"] == 3
    assert spread["min"] <= spread["iqm_low"] <= spread["iqm"] <= spread["iqm_high"]


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("sweep", "--algo", "dqn", "--grid", "lr=1"), "Name the environment"),
        (("sweep", "snake", "--grid", "lrr=1"), "Did you mean 'lr'?"),
        (("sweep", "snake", "--grid"), "`brisk sweep --help` explains"),
        (("sweep", "snake", "--grid", "lr"), "must have the form KEY=VALUES"),
        (("sweep", "snake", "--gird", "lr=1"), "Unknown flag --gird. Did you mean '--grid'"),
        (("sweep", "snake", "--grid", "lr=1", "--run-dir", "x"), "--sweep-dir"),
        (("sweep", "snake", "--search", "tpe", "--range", "lr=1..2:lgo"), "LOW..HIGH"),
        (("sweep", "show", "nothing"), "nothing is not the folder of a sweep"),
        (("sweep", "resume", "nothing"), "nothing is not the folder of a sweep"),
        (("train", "snake", "--jobs", "2"), "add --seeds"),
        (("train", "snake", "--seeds", "1,1"), "names a seed twice"),
    ],
)
def test_mistakes_are_one_instant_paragraph(brisk: Brisk, words: tuple[str, ...], message: str):
    done = brisk(*words, python=("-X", "importtime"))
    assert done.returncode == 2
    lines = done.stderr.splitlines()
    printed = [line for line in lines if not line.startswith("import time:")]
    imported = {
        line.rpartition("|")[2].strip().partition(".")[0]
        for line in lines
        if line.startswith("import time:")
    }
    assert len(printed) == 1
    assert message in printed[0]
    assert imported.isdisjoint({*HEAVY, "optuna", "ray"})


def test_a_missing_extra_is_one_line_with_the_command_that_installs_it(
    brisk: Brisk, tmp_path: Path
):
    # As if it were not installed: an empty path finds nothing, and ours finds all but Optuna.
    (tmp_path / "sitecustomize.py").write_text(
        "import importlib.util as util\n"
        "find = util.find_spec\n"
        "util.find_spec = lambda name, *rest: None if name == 'optuna' else find(name, *rest)\n"
    )
    before = os.environ.get("PYTHONPATH", "")
    os.environ["PYTHONPATH"] = f"{tmp_path}{os.pathsep}{before}"
    try:
        done = brisk("sweep", "snake", "--search", "tpe", "--range", "lr=1e-4..1e-2")
    finally:
        os.environ["PYTHONPATH"] = before
    assert done.returncode == 2
    assert "pip install 'briskrl[sweep]'" in done.stderr
    assert len(done.stderr.splitlines()) == 1


def test_a_cluster_that_cannot_be_reached_leaves_no_folder(brisk: Brisk, tmp_path: Path):
    where = ("--executor", "ray", "--address", "127.0.0.1:1")
    done = brisk("sweep", "snake", "--seeds", "2", *where)
    assert done.returncode == 2
    assert "cannot be reached" in done.stderr
    assert not list(tmp_path.iterdir())


def test_the_file_of_a_sweep_starts_another_one_like_it(brisk: Brisk, tiny: str, tmp_path: Path):
    words = ("--grid", "lr=1e-3,1e-4", "--seeds", "2", "--print-config")
    first = brisk("sweep", "--config", tiny, *words)
    (tmp_path / "again.toml").write_text(first.stdout)
    second = brisk("sweep", "--config", "again.toml", "--print-config")
    assert second.stdout == first.stdout
    assert 'lr = "1e-3,1e-4"' in second.stdout
    assert not (tmp_path / LEDGER).exists()
