"""A cluster that cannot be used is refused within seconds, with the cause."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from threading import Thread

import pytest

from briskrl.cluster.ray.connect import connect
from briskrl.cluster.ray.probe import check_access, parse_address
from briskrl.cluster.ray.rehearsal import Rehearsal
from briskrl.cluster.ray.tokens import Token, find_token
from briskrl.core.errors import BriskError, ConfigError
from tests.cluster.ray.conftest import ROOT, brisk

WITHOUT_RAY = """
import sys
sys.modules["ray"] = None
from briskrl.cluster.settings import ExecutorConfig, open_executor
from briskrl.core.errors import BriskError
from pathlib import Path
try:
    open_executor(ExecutorConfig(executor="ray"), Path("folder"))
except BriskError as error:
    print(error)
    sys.exit(error.exit_code)
"""
OWN_CLUSTER = """
import os, signal, sys
from pathlib import Path
import psutil
from briskrl.cluster.settings import ExecutorConfig, open_executor
from tests.cluster import jobs
from tests.cluster.executor_contract import end_of, run_all

handler = signal.getsignal(signal.SIGTERM)
with open_executor(ExecutorConfig(executor="ray", jobs=1), Path("folder")) as executor:
    assert executor.slots == 1
    assert signal.getsignal(signal.SIGTERM) is handler
    assert end_of(run_all(executor, [jobs.Square("one", number=4)]), "one").result["square"] == 16
    own = psutil.Process().children(recursive=True)
    programs = {process.name() for process in own}
    ports = [
        link.laddr.ip
        for process in [psutil.Process(), *own]
        for link in process.net_connections()
        if link.status == psutil.CONN_LISTEN
    ]
assert Path("folder/one/job.log").exists()
assert len(ports) > 3 and {ip.removeprefix("::ffff:") for ip in ports} == {"127.0.0.1"}, ports
assert not [process for process in own if process.is_running()]
assert not [name for name in os.environ if name.startswith("RAY_AUTH")]
"""


@pytest.mark.parametrize(
    "text",
    ["", "head", "head:", ":6379", "head:port", "head:99999", "http://head:80", "ray://head"],
)
def test_what_is_no_address_is_refused(text: str):
    with pytest.raises(ConfigError, match="not the address"):
        parse_address(text)


@pytest.mark.parametrize("text", ["head:6379", "ray://head:10001", "[::1]:6379", "127.0.0.1:1"])
def test_addresses_are_understood(text: str):
    assert str(parse_address(text)) == text
    assert parse_address(text).is_loopback == (text[0] in "[1")


def test_a_cluster_that_does_not_run_is_named(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("RAY_ADDRESS", "127.0.0.1:1")
    with pytest.raises(BriskError, match=r"127\.0\.0\.1:1 cannot be reached: Connection refused"):
        connect("auto").__enter__()


@pytest.mark.parametrize("prefix", ["", "ray://"])
def test_another_program_at_the_address_is_noticed(prefix: str):
    with something_else() as port, pytest.raises(BriskError, match="does not answer as a Ray"):
        connect(f"{prefix}127.0.0.1:{port}").__enter__()


def test_a_missing_extra_is_one_line_with_the_command(tmp_path: Path):
    done = run_python(WITHOUT_RAY, tmp_path)
    assert done.returncode == 2
    assert done.stdout == "Ray is not installed; install it with: pip install 'briskrl[ray]'\n"
    assert done.stderr == ""


def test_a_token_comes_from_the_environment_or_a_file(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
):
    monkeypatch.setenv("HOME", str(tmp_path))
    for name in ("RAY_AUTH_TOKEN", "RAY_AUTH_TOKEN_PATH"):
        monkeypatch.delenv(name, raising=False)
    assert find_token() is None
    (tmp_path / ".ray").mkdir()
    (tmp_path / ".ray" / "auth_token").write_text("home\n")
    assert find_token() == Token("home", str(tmp_path / ".ray" / "auth_token"))
    monkeypatch.setenv("RAY_AUTH_TOKEN_PATH", str(tmp_path / "missing"))
    with pytest.raises(ConfigError, match="missing"):
        find_token()
    monkeypatch.setenv("RAY_AUTH_TOKEN", "variable")
    assert find_token() == Token("variable", "RAY_AUTH_TOKEN")


def test_a_wrong_or_missing_token_is_named(
    cluster: Rehearsal, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
):
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.delenv("RAY_AUTH_TOKEN", raising=False)
    with pytest.raises(BriskError, match="asks for a token, and there is none"):
        connect(cluster.address).__enter__()
    monkeypatch.setenv("RAY_AUTH_TOKEN", "wrong")
    with pytest.raises(BriskError, match="does not accept the token in RAY_AUTH_TOKEN"):
        connect(cluster.address).__enter__()


def test_the_control_port_is_not_that_of_clients(
    cluster: Rehearsal, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setenv("RAY_AUTH_TOKEN", cluster.token_path.read_text())
    with pytest.raises(BriskError, match=r"UNIMPLEMENTED\)\. .* leave out ray://"):
        connect(f"ray://{cluster.address}").__enter__()


def test_another_version_of_ray_is_named(cluster: Rehearsal, monkeypatch: pytest.MonkeyPatch):
    token = Token(cluster.token_path.read_text(), "the file")
    address = parse_address(cluster.address)
    check_access(address, token, token_required=True)
    monkeypatch.setattr("ray.__version__", "2.0.0")
    with pytest.raises(BriskError, match=r"has Ray .* and this machine has 2\.0\.0"):
        check_access(address, token, token_required=True)


def test_a_process_connects_once_and_again_after_the_end(cluster: Rehearsal):
    for _ in range(2):
        with connect("auto") as connection:
            assert connection.address == cluster.address
            assert not connection.own
            with pytest.raises(BriskError, match="connected to a Ray cluster already"):
                connect("auto").__enter__()
    assert "RAY_AUTH_TOKEN" not in os.environ


def test_auto_finds_no_cluster_of_another_program(cluster: Rehearsal, tmp_path: Path):
    done = brisk("cluster", "status", state_home=tmp_path)
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr.startswith("brisk: No Ray cluster was found on this machine.")
    assert len(done.stderr.splitlines()) == 1


def test_a_cluster_of_our_own_listens_on_the_loopback_interface_and_leaves_nothing(tmp_path: Path):
    done = run_python(OWN_CLUSTER, tmp_path)
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")


@contextmanager
def something_else() -> Iterator[int]:
    """A port where something listens that is not Ray."""
    with socket.create_server(("127.0.0.1", 0)) as server:

        def serve() -> None:
            while True:
                try:
                    connection, _ = server.accept()
                except OSError:
                    return
                connection.sendall(b"SSH-2.0-Something\r\n")
                connection.close()

        thread = Thread(target=serve, daemon=True)
        thread.start()
        yield server.getsockname()[1]
        server.shutdown(socket.SHUT_RDWR)
    thread.join()


def run_python(code: str, folder: Path) -> subprocess.CompletedProcess[str]:
    variables = {name: os.environ[name] for name in os.environ if not name.startswith("RAY_")}
    return subprocess.run(
        [sys.executable, "-c", code],
        cwd=folder,
        env={**variables, "PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
