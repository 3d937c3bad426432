"""A driver killed at any moment: a resume ends with the results of an uninterrupted sweep."""

from __future__ import annotations

import json
import os
import random
import signal
import subprocess
import sys
import time
from collections import Counter
from pathlib import Path

import pytest

from briskrl.cluster.sweep.folder import sweep_toml
from briskrl.cluster.sweep.ledger import ENDS, LEDGER, read_ledger
from briskrl.cluster.sweep.plan import sweep_info
from briskrl.cluster.sweep.run import sweep
from briskrl.cluster.sweep.search import load_study
from tests.cli.conftest import environment
from tests.cluster.sweep.small_sweeps import ONE_JOB, exact_results, settings, tiny_config

PATIENCE_S = 300.0
SEARCH = {"search": "tpe", "trials": 4, "range": {"lr": "1e-4..1e-2:log"}, "confirm_seeds": 1}
CONFIG = tiny_config(steps=6000, checkpoint_steps=1000)


def count_lines(path: Path) -> int:
    return path.read_bytes().count(b"\n") if path.exists() else 0


def start(*words: str, cwd: Path) -> subprocess.Popen[bytes]:
    command = [sys.executable, "-m", "briskrl", "sweep", *words]
    return subprocess.Popen(command, cwd=cwd, env=environment(), stdout=subprocess.DEVNULL)


def kill_after(process: subprocess.Popen[bytes], path: Path, lines: int, delay_s: float) -> None:
    """Kill the driver some time after it has written this many lines to its ledger."""
    before, begin = count_lines(path), time.monotonic()
    while count_lines(path) < before + lines and process.poll() is None:
        assert time.monotonic() - begin < PATIENCE_S
        time.sleep(0.005)
    time.sleep(delay_s)
    process.send_signal(signal.SIGKILL)
    process.wait()


def check_ledger(folder: Path) -> None:
    """Every run has ended at most once."""
    lines = (folder / LEDGER).read_bytes().split(b"\n")[:-1]
    ends = Counter(e["name"] for e in map(json.loads, lines) if e["event"] in ENDS)
    assert set(ends.values()) <= {1}
    assert set(ends) == {record.name for record in read_ledger(folder) if record.has_ended}


def check_kills(folder: Path, kills: int, seed: int) -> None:
    """Kill the driver of a sweep several times, and compare the end with an uninterrupted one."""
    rng = random.Random(seed)
    whole = sweep(CONFIG, settings(folder / "whole", **SEARCH), ONE_JOB)
    killed = folder / "killed"
    info = sweep_info(CONFIG, settings(killed, **SEARCH), ONE_JOB)
    (folder / "plan.toml").write_text(sweep_toml(info))
    words = ["--config", "plan.toml", "--sweep-dir", "killed"]
    for _ in range(kills):
        process = start(*words, cwd=folder)
        kill_after(process, killed / LEDGER, rng.randint(1, 4), rng.uniform(0.0, 0.15))
        check_ledger(killed)
        words = ["resume", "killed"]
    last = start(*words, cwd=folder)
    assert last.wait(PATIENCE_S) == 0
    check_ledger(killed)
    assert exact_results(read_ledger(killed)) == exact_results(whole.records)
    told = {
        trial.user_attrs["trial"]: trial.value
        for trial in load_study(killed).trials
        if trial.state.name == "COMPLETE"
    }
    assert told == {trial.trial: trial.value("score") for trial in whole.trials}


def test_a_driver_killed_three_times_loses_nothing_and_counts_nothing_twice(tmp_path: Path):
    check_kills(tmp_path, 3, seed=int(os.environ.get("KILL_SEED", "1")))


@pytest.mark.slow
@pytest.mark.parametrize("seed", [2, 3])
def test_a_driver_killed_ten_times_loses_nothing_and_counts_nothing_twice(
    tmp_path: Path, seed: int
):
    check_kills(tmp_path, 10, seed)
