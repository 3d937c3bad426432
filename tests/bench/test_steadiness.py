"""Slices of a real run and of replicas, on runs with known costs."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Sequence
from contextlib import closing, suppress
from pathlib import Path
from time import process_time

import psutil
import pytest

from briskrl.bench.compare import cost_ratio
from briskrl.bench.steadiness import SteadinessHook
from briskrl.training.config import TrainConfig
from briskrl.training.hooks import Hook
from briskrl.training.loop import train
from briskrl.training.recorder import RunRecorder
from briskrl.training.reporter import RunResult

NUM_ENVS = 16
EPISODES = 32
SETTINGS = {"learning_starts": 400, "buffer_size": 4096, "net": (16,)}


def train_with_replicas(
    tmp_path: Path, iterations: int, hooks: Sequence[Hook] = (), **settings: int
) -> tuple[SteadinessHook, RunResult]:
    hook = SteadinessHook(iterations=iterations, episodes=EPISODES, folder=tmp_path)
    config = TrainConfig(
        steps=iterations * NUM_ENVS,
        num_envs=NUM_ENVS,
        run_dir=str(tmp_path / "run"),
        algo_config={**SETTINGS, **settings},
    )
    with closing(hook):
        result = train(config, hooks=[*hooks, hook])
    return hook, result


class SlowDown:
    """Wastes CPU time in every iteration from `first` on."""

    def __init__(self, first: int, cpu_s: float) -> None:
        self._first = first
        self._cpu_s = cpu_s

    def __call__(self, run: RunRecorder) -> None:
        if run.trainer.counters.iterations >= self._first:
            begin = process_time()
            while process_time() - begin < self._cpu_s:
                pass


def test_a_run_that_slows_down_is_detected_and_waiting_is_counted(tmp_path: Path) -> None:
    cores = os.sched_getaffinity(0) if hasattr(os, "sched_getaffinity") else None
    hook, result = train_with_replicas(tmp_path, 1000, hooks=[SlowDown(first=800, cpu_s=0.01)])
    ratio = cost_ratio(hook.late)
    assert ratio is not None
    assert ratio > 2
    run_s = sum(pair.run_s for pair in hook.late)
    assert 200 * 0.01 < run_s < result.cpu_s
    assert 1 <= len(hook.starts) <= 4
    assert all(pair.run_s > 0 and pair.replica_s > 0 for pairs in hook.starts for pair in pairs)
    assert 0 < hook.paused.wall_s < result.wall_s
    assert result.phases["wait"] == pytest.approx(hook.paused.wall_s, rel=0.05)
    assert psutil.Process().children() == []
    if cores is not None:
        assert os.sched_getaffinity(0) == cores


def test_slices_longer_than_the_first_episodes_leave_time_for_the_last_fifth(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("briskrl.bench.steadiness.EARLY_SLICE_S", 60.0)
    hook, _ = train_with_replicas(tmp_path, 750)
    assert len(hook.starts) >= 1
    assert cost_ratio(hook.late) is not None


def test_a_short_run_starts_no_replica(tmp_path: Path) -> None:
    hook, result = train_with_replicas(tmp_path, 38)
    assert result.stopped == "finished"
    assert hook.starts == hook.late == []
    assert hook.paused.wall_s == 0


def test_a_run_that_learns_late_compares_no_fifths(tmp_path: Path) -> None:
    hook, _ = train_with_replicas(tmp_path, 400, learning_starts=100 * NUM_ENVS)
    assert hook.late == []


def test_an_interrupt_leaves_no_process(tmp_path: Path) -> None:
    words = ["bench", "train", "snake", "--num-envs", "16", "--steps", "400000", "--net", "16"]
    words += ["--learning-starts", "400", "--buffer-size", "4096", "--json"]
    command = [sys.executable, "-m", "briskrl", *words]
    main = subprocess.Popen(command, cwd=tmp_path, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    try:
        child = first_child(main)
        main.send_signal(signal.SIGINT)
        out, _ = main.communicate(timeout=60)
    finally:
        main.kill()
    assert main.returncode == 130
    assert out == b""
    assert not child.is_running()


def first_child(main: subprocess.Popen[bytes]) -> psutil.Process:
    while main.poll() is None:
        for child in psutil.Process(main.pid).children():
            # A child that has just ended has no command line.
            with suppress(psutil.Error):
                if "briskrl.bench.replica_process" in child.cmdline():
                    return child
        time.sleep(0.02)
    raise AssertionError(f"no replica was started: {main.communicate()}")
