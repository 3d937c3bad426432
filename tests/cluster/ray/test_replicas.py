"""Runs with replicas on Ray: `pytest -m slow tests/cluster/ray/test_replicas.py`."""

from __future__ import annotations

from contextlib import suppress
from pathlib import Path

import psutil
import pytest

from briskrl.cluster.ray.rehearsal import Rehearsal
from tests.cluster.replicas.replica_runs import (
    Command,
    content,
    kill,
    long_config,
    train,
)

pytestmark = pytest.mark.slow


def workers_below(command: Command) -> list[psutil.Process]:
    """The workers of Ray Train, if the cluster is that of the command."""
    found = []
    for process in psutil.Process(command.process.pid).children(recursive=True):
        with suppress(psutil.Error):
            if "RayTrainWorker" in " ".join(process.cmdline()):
                found.append(process)
    return found


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("whole") / "run"
    code, text = train(long_config(), folder).wait()
    assert code == 0, text
    return folder


def test_a_run_on_ray_has_the_bits_of_one_with_local_replicas(
    whole: Path, cluster: Rehearsal, tmp_path: Path
):
    where = ["--executor", "ray", "--address", cluster.address]
    code, text = train(long_config(), tmp_path / "run", *where).wait()
    assert code == 0, text
    assert content(tmp_path / "run") == content(whole)


def test_a_worker_that_is_killed_costs_nothing_but_time(whole: Path, tmp_path: Path):
    command = train(long_config(), tmp_path / "run", "--executor", "ray")
    command.wait_for_checkpoint("")
    workers = workers_below(command)
    assert workers
    kill(workers[-1])
    code, text = command.wait()
    assert code == 0, text
    assert "all of them continue from the newest checkpoint" in text
    assert content(tmp_path / "run") == content(whole)
