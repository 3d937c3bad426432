"""Replica processes train on request and never outlive their parent."""

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
def replica(config: Path, tmp_path: Path) -> Iterator[ReplicaProcess]:
    with ReplicaProcess(config, tmp_path / "replica") as process:
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


def test_a_request_trains_as_many_iterations_and_returns_their_cost(
    replica: ReplicaProcess,
) -> None:
    assert replica.progress.iterations == 1
    process = children()[0]
    before = sum(process.cpu_times()[:2])
    answers = [replica.train(count) for count in (1, 20, 300)]
    spent = sum(process.cpu_times()[:2]) - before
    assert [answer.iterations for answer in answers] == [2, 22, 322]
    assert answers[-1].updates > answers[0].updates
    assert answers[-1].episodes > 0
    # The system counts CPU time in ticks of 10 ms.
    assert 0 < sum(answer.cpu_s for answer in answers) <= spent + 0.03


def test_it_sleeps_between_requests(replica: ReplicaProcess) -> None:
    process = children()[0]
    replica.train(5)
    time.sleep(0.1)
    before = sum(process.cpu_times()[:2])
    time.sleep(0.4)
    assert sum(process.cpu_times()[:2]) - before <= 0.05


def test_nothing_is_imported_from_the_current_folder(
    config: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("json", "numpy", "briskrl"):
        (tmp_path / f"{name}.py").write_text("open('imported', 'w').close()\n")
    monkeypatch.chdir(tmp_path)
    with ReplicaProcess(config, tmp_path / "replica") as process:
        assert process.progress.iterations == 1
    assert not (tmp_path / "imported").exists()


def test_closing_ends_the_process(config: Path, tmp_path: Path) -> None:
    process = ReplicaProcess(config, tmp_path / "replica")
    (child,) = children()
    process.close()
    process.close()
    assert gone(child, within_s=0)


def test_a_dead_process_raises(replica: ReplicaProcess) -> None:
    children()[0].send_signal(signal.SIGKILL)
    with pytest.raises(ProcessDiedError):
        replica.train(1)


def test_it_exits_when_its_parent_is_killed(config: Path, tmp_path: Path) -> None:
    code = (
        "import sys, time; from pathlib import Path\n"
        "from briskrl.bench.replica_process import ReplicaProcess\n"
        "replica = ReplicaProcess(Path(sys.argv[1]), Path(sys.argv[2]))\n"
        "print('ready', flush=True)\n"
        "replica.train(int(sys.argv[3])); time.sleep(60)"
    )
    for count in (1, 100_000):
        folder = tmp_path / f"replica-{count}"
        command = [sys.executable, "-c", code, str(config), str(folder), str(count)]
        parent = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
        assert parent.stdout is not None
        assert parent.stdout.readline() == "ready\n"
        (child,) = psutil.Process(parent.pid).children()
        time.sleep(0.2)
        parent.kill()
        parent.wait()
        parent.stdout.close()
        assert gone(child)
