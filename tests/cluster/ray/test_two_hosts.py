"""Two hosts that share a network and no files: the driver on one, the job on the other.

The hosts are network namespaces of this machine. Run with: pytest -m slow tests/cluster/ray
"""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import ExitStack, suppress
from pathlib import Path

import pytest

from briskrl.cluster.ray.tokens import new_token, token_variables
from briskrl.training.loop import train
from tests.cluster.executor_contract import PATIENCE_S, wait_until
from tests.cluster.ray.conftest import ROOT
from tests.cluster.ray.test_faults import DRIVER, long_config
from tests.training.runs import policy_hash

pytestmark = pytest.mark.slow

HEAD, OTHER = "10.77.0.1", "10.77.0.2"
PORT = 6377


def ip(*words: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(["ip", *words], capture_output=True, text=True, check=False)


@pytest.fixture
def hosts() -> Iterator[tuple[str, str]]:
    """Names of two connected network namespaces."""
    if shutil.which("ip") is None:
        pytest.skip("needs iproute2")
    names = (f"brisk-{os.getpid()}-a", f"brisk-{os.getpid()}-b")
    with ExitStack() as stack:
        for name in names:
            made = ip("netns", "add", name)
            if made.returncode != 0:
                pytest.skip(f"network namespaces are not permitted: {made.stderr.strip()}")
            stack.callback(ip, "netns", "del", name)
        wire = ("type", "veth", "peer", "name", "eth0", "netns", names[1])
        assert ip("link", "add", "eth0", "netns", names[0], *wire).returncode == 0
        for name, address in zip(names, (HEAD, OTHER), strict=True):
            ip("-n", name, "addr", "add", f"{address}/24", "dev", "eth0")
            for link in ("lo", "eth0"):
                ip("-n", name, "link", "set", link, "up")
            # Ray finds its own address by the route to the outside.
            ip("-n", name, "route", "add", "default", "via", HEAD if address == OTHER else OTHER)
        yield names


def test_a_job_on_another_host_survives_the_loss_of_its_node(
    hosts: tuple[str, str], tmp_path: Path
):
    head, other = hosts
    storage = tmp_path / "storage"
    storage.mkdir()
    # Paths of Unix sockets must be short.
    sockets = Path(tempfile.mkdtemp(prefix="ray-"))
    variables = {
        **os.environ,
        **token_variables(new_token()),
        "RAY_USAGE_STATS_ENABLED": "0",
        "PYTHONPATH": str(ROOT),
    }
    ray = [sys.executable, "-P", "-m", "ray.scripts.scripts", "start", "--block"]
    # Hidden from the nodes by an empty file system, so that files have to be sent.
    hidden = f"mount -t tmpfs none {storage} && exec "

    def start_node(host: str, *words: str) -> None:
        command = " ".join([*ray, f"--temp-dir={sockets}", *words])
        subprocess.Popen(
            ["ip", "netns", "exec", host, "sh", "-c", hidden + command],
            env=variables,
            stdout=subprocess.DEVNULL,
        )

    def start_driver() -> subprocess.Popen[str]:
        code = [sys.executable, "-c", DRIVER, f"{HEAD}:{PORT}", str(storage)]
        return subprocess.Popen(
            ["ip", "netns", "exec", head, *code], env=variables, stdout=subprocess.PIPE, text=True
        )

    with ExitStack() as stack:
        first = ("--head", f"--port={PORT}", "--num-cpus=0", "--include-dashboard=false")
        stack.callback(shutil.rmtree, sockets, ignore_errors=True)
        for host in hosts:
            stack.callback(end_all, host)
        start_node(head, *first, f"--node-ip-address={HEAD}")
        wait_for_port(head)
        join = (f"--address={HEAD}:{PORT}", "--num-cpus=1", f"--node-ip-address={OTHER}")
        start_node(other, *join)
        wait_until(lambda: count_nodes(head, variables) == 2)
        driver = start_driver()
        wait_until(lambda: (storage / "run" / "checkpoints" / "LATEST").exists())
        end_all(other)
        start_node(other, *join)
        output = driver.communicate(timeout=3 * PATIENCE_S)[0].splitlines()
    assert "JobRetried" in {line.partition(" ")[0] for line in output}
    train(long_config(tmp_path / "here"))
    result = json.loads(output[-1].partition(" ")[2])
    assert result["model_sha256"] == policy_hash(tmp_path / "here") == policy_hash(storage / "run")


def end_all(host: str) -> None:
    """Kill everything on a host, as if it had lost power."""
    for pid in ip("netns", "pids", host).stdout.split():
        with suppress(ProcessLookupError):
            os.kill(int(pid), signal.SIGKILL)


def wait_for_port(host: str) -> None:
    """Wait until the head listens."""
    code = f"import socket; socket.create_connection(({HEAD!r}, {PORT}), 2)"
    command = ["ip", "netns", "exec", host, sys.executable, "-c", code]
    wait_until(lambda: subprocess.run(command, capture_output=True).returncode == 0)


def count_nodes(host: str, variables: dict[str, str]) -> int:
    """Nodes of the cluster that are alive, or 0 if it does not answer yet."""
    words = ("-m", "briskrl", "cluster", "status", "--address", f"{HEAD}:{PORT}", "--json")
    command = ["ip", "netns", "exec", host, sys.executable, *words]
    done = subprocess.run(command, env=variables, capture_output=True, text=True, check=False)
    return len(json.loads(done.stdout)["nodes"]) if done.returncode == 0 else 0
