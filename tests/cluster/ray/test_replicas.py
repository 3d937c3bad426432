"""Runs with replicas on Ray: `pytest -m slow tests/cluster/ray/test_replicas.py`."""

from __future__ import annotations

import json
from contextlib import suppress
from pathlib import Path

import psutil
import pytest

from briskrl.cluster.ray.rehearsal import Rehearsal
from tests.cluster.ray.simulated import add_node, simulated_cluster
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


def test_a_run_goes_on_with_fewer_replicas_if_a_lost_node_does_not_come_back(tmp_path: Path):
    with simulated_cluster() as cluster:
        nodes = [add_node(cluster, cpus=1) for _ in range(2)]
        where = ["--executor", "ray", "--address", cluster.address, "--min-replicas", "1"]
        command = train(long_config(300_000), tmp_path / "run", *where)
        command.wait_for_checkpoint("")
        cluster.remove_node(nodes[1], allow_graceful=False)
        code, text = command.wait()
    assert code == 0, text
    assert "replicas: 1 instead of 2" in text
    facts = json.loads((tmp_path / "run" / "meta.json").read_text())
    assert facts["sessions"][-1]["changes"] == {"replicas": [2, 1]}
    status = json.loads((tmp_path / "run" / "status.json").read_text())
    assert (status["state"], status["env_steps"]) == ("finished", 300_000)
    episodes = (tmp_path / "run" / "episodes.csv").read_text().splitlines()
    # Steps that were done twice are recorded once.
    assert len(episodes) - 1 == status["episodes"]
