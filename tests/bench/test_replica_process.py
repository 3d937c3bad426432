"""The process that trains by turns: it does what it is told, and never outlives who told it."""

from __future__ import annotations

import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import psutil
import pytest

from briskrl.bench.process import ProcessDiedError
from briskrl.bench.replica_process import ReplicaProcess
from briskrl.core.config import to_toml
from briskrl.training.config import TrainConfig
from briskrl.training.resolve import complete

SETTINGS = {"learning_starts": 100, "buffer_size": 2048, "net": (16,)}


@pytest.fixture
def config(tmp_path: Path) -> Path:
    path = tmp_path / "config.toml"
    run = TrainConfig(steps=16_000, num_envs=16, algo_config=SETTINGS)
    path.write_text(to_toml(complete(run)))
    return path


@pytest.fixture
def fresh(config: Path, tmp_path: Path) -> Iterator[ReplicaProcess]:
    with ReplicaProcess(config, tmp_path / "fresh") as process:
        yield process


def children() -> list[psutil.Process]:
    found = psutil.Process().children()
    return [child for child in found if child.status() != psutil.STATUS_ZOMBIE]


def gone(process: psutil.Process, within_s: float = 20.0) -> bool:
    deadline = time.monotonic() + within_s
    while process.is_running() and process.status() != psutil.STATUS_ZOMBIE:
        if time.monotonic() > deadline:
            return False
        time.sleep(0.02)
    return True


def test_a_turn_has_as_many_iterations_as_ordered_and_tells_their_cost(
    fresh: ReplicaProcess,
) -> None:
    assert fresh.at.iterations == 1
    process = children()[0]
    before = sum(process.cpu_times()[:2])
    turns = [fresh.turn(count) for count in (1, 20, 300)]
    spent = sum(process.cpu_times()[:2]) - before
    assert [turn.iterations for turn in turns] == [2, 22, 322]
    assert turns[-1].updates > turns[0].updates
    assert turns[-1].episodes > 0
    # The system counts in ticks of 10 ms.
    assert 0 < sum(turn.cpu_s for turn in turns) <= spent + 0.03


def test_between_turns_it_sleeps(fresh: ReplicaProcess) -> None:
    process = children()[0]
    fresh.turn(5)
    time.sleep(0.1)
    before = sum(process.cpu_times()[:2])
    time.sleep(0.4)
    assert sum(process.cpu_times()[:2]) - before <= 0.05


def test_closing_ends_the_process(config: Path, tmp_path: Path) -> None:
    process = ReplicaProcess(config, tmp_path / "fresh")
    (child,) = children()
    process.close()
    process.close()
    assert gone(child, within_s=0)


def test_a_process_that_dies_is_told(fresh: ReplicaProcess) -> None:
    children()[0].send_signal(signal.SIGKILL)
    with pytest.raises(ProcessDiedError):
        fresh.turn(1)


def test_it_leaves_when_the_one_who_gave_orders_is_killed(config: Path, tmp_path: Path) -> None:
    code = (
        "import sys, time; from pathlib import Path\n"
        "from briskrl.bench.replica_process import ReplicaProcess\n"
        "fresh = ReplicaProcess(Path(sys.argv[1]), Path(sys.argv[2])); print('ready', flush=True)\n"
        "fresh.turn(int(sys.argv[3])); time.sleep(60)"
    )
    for turn in (1, 100_000):
        folder = tmp_path / f"fresh-{turn}"
        command = [sys.executable, "-c", code, str(config), str(folder), str(turn)]
        giver = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
        assert giver.stdout is not None
        assert giver.stdout.readline() == "ready\n"
        (child,) = psutil.Process(giver.pid).children()
        time.sleep(0.2)
        giver.kill()
        giver.wait()
        giver.stdout.close()
        assert gone(child)
