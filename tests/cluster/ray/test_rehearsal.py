"""`brisk cluster` starts one cluster per user, shows it, and stops nothing else."""

from __future__ import annotations

import json
import os
import signal
from pathlib import Path

import psutil
import pytest

from briskrl.cluster.ray.rehearsal import Rehearsal, read_rehearsal
from tests.cluster.executor_contract import wait_until
from tests.cluster.ray.conftest import brisk


def test_the_status_shows_nodes_and_cores(cluster: Rehearsal, state_home: Path):
    done = brisk("cluster", "status", "--json", state_home=state_home)
    assert (done.returncode, done.stderr) == (0, "")
    status = json.loads(done.stdout)
    assert status["address"] == cluster.address
    assert [node["cpus"] for node in status["nodes"]] == [2, 2]
    assert status["programs"] == []
    text = brisk("cluster", "status", "--address", cluster.address, state_home=state_home)
    assert text.stdout.startswith(f"cluster {cluster.address}\n")
    assert text.stdout.endswith("No program uses it.\n")


def test_a_second_cluster_is_refused(cluster: Rehearsal, state_home: Path):
    done = brisk("cluster", "up", state_home=state_home)
    assert (done.returncode, done.stdout) == (2, "")
    assert "is running already" in done.stderr
    assert read_rehearsal() == cluster


def test_the_token_is_for_its_user_only_and_no_port_for_other_machines(cluster: Rehearsal):
    assert cluster.token_path.stat().st_mode & 0o777 == 0o600
    assert cluster.token_path.parent.stat().st_mode & 0o777 == 0o700
    keeper = psutil.Process(cluster.keeper)
    listening = {
        link.laddr.ip.removeprefix("::ffff:")
        for process in [keeper, *keeper.children(recursive=True)]
        for link in process.net_connections()
        if link.status == psutil.CONN_LISTEN
    }
    assert listening == {"127.0.0.1"}


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("up", "--nodes", "0"), "--nodes must be between 1 and 32, not 0"),
        (("up", "--cpus", "0"), "--cpus must be between 1 and 1024, not 0"),
        (("up", "--port", "70000"), "--port must be between 0 and 65535, not 70000"),
        (("up", "--nodes", "two"), "invalid int value: 'two'"),
        (("upp",), "invalid choice: 'upp'"),
        (("down",), "No rehearsal cluster is running. `brisk cluster up` starts one."),
        (("status", "--address", "nowhere"), "not the address of a Ray cluster"),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, tuple) else "",
)
def test_what_cannot_work_is_explained(tmp_path: Path, words: tuple[str, ...], message: str):
    done = brisk("cluster", *words, state_home=tmp_path)
    assert (done.returncode, done.stdout) == (2, "")
    assert message in done.stderr


def test_a_cluster_that_cannot_start_is_one_line_that_names_its_log(tmp_path: Path):
    (tmp_path / "file").touch()
    nowhere = str(tmp_path / "file")
    done = brisk("cluster", "up", "--nodes", "1", state_home=tmp_path, RAY_TMPDIR=nowhere)
    assert done.returncode == 2
    (line,) = done.stderr.splitlines()
    assert "Traceback" not in line
    assert "NotADirectoryError" in line
    log = tmp_path / "briskrl" / "cluster" / "log"
    assert str(log) in line
    assert "Traceback" in log.read_text()


@pytest.mark.slow
def test_a_killed_keeper_takes_its_nodes_with_it_and_another_one_can_start(tmp_path: Path):
    for _ in range(2):
        up = brisk("cluster", "up", "--nodes", "2", "--cpus", "1", "--json", state_home=tmp_path)
        assert up.returncode == 0, up.stderr
        keeper = psutil.Process(json.loads(up.stdout)["keeper"])
        nodes = keeper.children(recursive=True)
        assert len(nodes) > 4
        os.kill(keeper.pid, signal.SIGKILL)
        wait_until(lambda nodes=nodes: not any(is_alive(node) for node in nodes))
    assert brisk("cluster", "down", state_home=tmp_path).returncode == 2


@pytest.mark.slow
def test_a_port_that_is_taken_is_named(cluster: Rehearsal, tmp_path: Path):
    port = cluster.address.rpartition(":")[2]
    done = brisk("cluster", "up", "--nodes", "1", "--port", port, state_home=tmp_path)
    assert done.returncode == 2
    assert f"The port {port} is taken" in done.stderr


def is_alive(process: psutil.Process) -> bool:
    return process.is_running() and process.status() != psutil.STATUS_ZOMBIE
