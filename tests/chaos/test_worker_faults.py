"""Environments that raise, die or hang in every method, and trainers that are killed."""

from __future__ import annotations

import os
import random
import signal
import subprocess
import sys
import threading
import time
import uuid
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

from briskrl.core.errors import EnvStepError, EnvWorkerError
from briskrl.core.types import StepBuffers
from briskrl.envs.gym.process import GymProcessEnv
from tests.chaos.sabotage import (
    NUM_ENVS,
    TOKEN,
    WORKERS,
    Sabotage,
    alive,
    moment,
    opened,
    play,
    processes_with,
    seconds_to_notice,
)

MOMENTS = 20
RESPAWNS = 5
STEPS = 40
FAULTS = ("raise", "exit", "segfault", "kill", "hang")
PLACES = ("constructor", "reset", "step")
CLOSE_S = 5.0
"""Closing takes no longer than this, whatever the environments do."""
ORPHANS_S = 2.0

pytestmark = pytest.mark.chaos


def sabotages(fault: str, place: str, moments: int = MOMENTS) -> Iterator[Sabotage]:
    """Different moments of one fault, the same in every run."""
    chance = random.Random(f"{fault} {place}")
    calls = {"constructor": 1, "reset": 4, "step": STEPS - 5, "close": 1}[place]
    for _ in range(moments):
        yield Sabotage(fault, place, chance.randrange(NUM_ENVS), chance.randint(1, calls))


def shared_blocks() -> set[str]:
    """Names of shared memory; folders there are other programs' temporary files."""
    return {entry.name for entry in os.scandir("/dev/shm") if entry.is_file()}


@pytest.fixture
def token(monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    """Marks all processes that a test starts; none of them may be left."""
    token = uuid.uuid4().hex
    monkeypatch.setenv(TOKEN, token)
    shared = shared_blocks()
    yield token
    assert [pid for pid in processes_with(token) if alive(pid)] == []
    assert shared_blocks() <= shared


@pytest.mark.parametrize("place", PLACES)
@pytest.mark.parametrize("fault", FAULTS)
def test_a_fault_is_noticed_in_time(fault: str, place: str, tmp_path: Path, token: str) -> None:
    slowest = 0.0
    for number, sabotage in enumerate(sabotages(fault, place)):
        folder = tmp_path / str(number)
        seconds, error = seconds_to_notice(sabotage, folder, STEPS)
        assert isinstance(error, EnvStepError if fault == "raise" else EnvWorkerError) or (
            # An environment that cannot be made is a mistake in the settings.
            fault == "raise" and place == "constructor"
        ), error
        assert seconds < sabotage.limit_s(), sabotage
        slowest = max(slowest, seconds)
    print(f"{fault} in {place}: {MOMENTS} moments, noticed after {slowest:.2f} s at most")


@pytest.mark.parametrize("place", ["reset", "step"])
@pytest.mark.parametrize("fault", FAULTS)
def test_training_goes_on_after_a_respawn(
    fault: str, place: str, tmp_path: Path, token: str
) -> None:
    for number, sabotage in enumerate(sabotages(fault, place, RESPAWNS)):
        with opened(sabotage, tmp_path / str(number), "respawn") as env:
            play(env, STEPS)
            assert env.respawns == 1, sabotage
    print(f"{fault} in {place}: {RESPAWNS} moments, training went on")


@pytest.mark.parametrize("fault", FAULTS)
def test_a_fault_in_close_delays_the_end_by_seconds_at_most(
    fault: str, tmp_path: Path, token: str
) -> None:
    slowest = 0.0
    for number, sabotage in enumerate(sabotages(fault, "close")):
        with opened(sabotage, tmp_path / str(number), "stop") as env:
            play(env, number)
            begin = time.monotonic()
            env.close()
            seconds = time.monotonic() - begin
        assert moment(tmp_path / str(number)) > begin
        assert seconds < CLOSE_S, sabotage
        slowest = max(slowest, seconds)
    print(f"{fault} in close: {MOMENTS} moments, closed after {slowest:.2f} s at most")


@pytest.mark.parametrize("place", ["constructor", "reset"])
@pytest.mark.parametrize("fault", FAULTS)
def test_a_slow_worker_does_not_hide_a_fault_in_another(
    fault: str, place: str, tmp_path: Path, token: str
) -> None:
    slow_s = 0.4 if fault == "hang" else 4.0
    # While instance 0 is being made, the other worker makes instance 1.
    sabotage = Sabotage(fault, place, who=1, at=1, slow=0, slow_s=slow_s)
    seconds, _ = seconds_to_notice(sabotage, tmp_path / "envs", 1)
    assert seconds < sabotage.limit_s(), sabotage


class Killer:
    """Kills a process later, from another thread."""

    def __init__(self, pid: int) -> None:
        self._pid = pid
        self._killed: float = 0.0

    def start_after(self, delay_s: float) -> None:
        self._timer = threading.Timer(delay_s, self._kill)
        self._timer.start()

    def killed_at(self) -> float:
        self._timer.join()
        return self._killed

    def _kill(self) -> None:
        self._killed = time.monotonic()
        os.kill(self._pid, signal.SIGKILL)


def step_forever(env: GymProcessEnv, out: StepBuffers) -> None:
    while True:
        env.step_into(np.ones(NUM_ENVS, np.int64), out)


def test_a_worker_killed_from_outside_is_noticed_in_time(tmp_path: Path, token: str) -> None:
    chance = random.Random(7)
    slowest = 0.0
    for number in range(MOMENTS):
        never = Sabotage("raise", "step", who=-1, at=1)
        with opened(never, tmp_path / str(number), "stop") as env:
            out = StepBuffers.allocate(env.env_spec, NUM_ENVS)
            env.start(0, out)
            killer = Killer(env.worker_pids[chance.randrange(WORKERS)])
            killer.start_after(chance.uniform(0.0, 0.2))
            with pytest.raises(EnvWorkerError, match="was killed by SIGKILL"):
                step_forever(env, out)
            seconds = time.monotonic() - killer.killed_at()
        assert seconds < 1.0
        slowest = max(slowest, seconds)
    print(f"killed from outside: {MOMENTS} moments, noticed after {slowest:.2f} s at most")


TRAINER = """
import sys
from briskrl import TrainConfig, train
train(TrainConfig(
    env="gym:CartPole-v1", algo="ppo", steps=10**9, num_envs=6, run_dir=sys.argv[1], engine="torch",
    env_config={"backend": "process", "workers": 3},
))
"""


def test_no_process_or_memory_is_left_of_a_killed_trainer(tmp_path: Path, token: str) -> None:
    """Kills from before the first worker is started to the middle of training."""
    chance = random.Random(8)
    slowest, seen = 0.0, 0
    for number in range(MOMENTS):
        trainer = subprocess.Popen([sys.executable, "-c", TRAINER, str(tmp_path / str(number))])
        if number % 2:
            # Workers need about this long to start; kills in this time are the most delicate.
            while len(processes_with(token)) < 2:
                assert trainer.poll() is None
                time.sleep(0.01)
            time.sleep(chance.uniform(0.0, 1.5))
        else:
            time.sleep(chance.uniform(0.5, 12.0))
        seen += len(processes_with(token)) - 1
        trainer.kill()
        killed = time.monotonic()
        trainer.wait()
        while [pid for pid in processes_with(token) if alive(pid)]:
            assert time.monotonic() - killed < ORPHANS_S
            time.sleep(0.02)
        slowest = max(slowest, time.monotonic() - killed)
    assert seen > MOMENTS
    print(f"trainer killed: {MOMENTS} moments, {seen} workers, gone after {slowest:.2f} s at most")
