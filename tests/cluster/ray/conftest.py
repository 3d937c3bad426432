"""The Ray cluster of the tests: two nodes, started by the real command."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from briskrl.cluster.ray.rehearsal import Rehearsal

ROOT = Path(__file__).parents[3]


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Let one process of pytest-xdist run all of these tests, with one cluster."""
    for item in items:
        if Path(__file__).parent in item.path.parents:
            item.add_marker(pytest.mark.xdist_group("ray"))


@pytest.fixture(scope="session")
def state_home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Where `brisk cluster` of the tests keeps its state, apart from that of the user."""
    return tmp_path_factory.mktemp("state")


@pytest.fixture(scope="session")
def rehearsal(state_home: Path) -> Iterator[Rehearsal]:
    """A cluster of two nodes with two cores each."""
    done = brisk("cluster", "up", "--nodes", "2", "--cpus", "2", "--json", state_home=state_home)
    assert done.returncode == 0, done.stderr
    facts = json.loads(done.stdout)
    del facts["token_path"]
    yield Rehearsal(**facts)
    done = brisk("cluster", "down", state_home=state_home)
    assert done.returncode == 0, done.stderr


@pytest.fixture
def cluster(rehearsal: Rehearsal, state_home: Path, monkeypatch: pytest.MonkeyPatch) -> Rehearsal:
    """The cluster, as this process finds it."""
    monkeypatch.setenv("XDG_STATE_HOME", str(state_home))
    return rehearsal


def brisk(*words: str, state_home: Path, **variables: str) -> subprocess.CompletedProcess[str]:
    """Run the real command."""
    environment = {
        **os.environ,
        "PYTHONPATH": str(ROOT),
        "XDG_STATE_HOME": str(state_home),
        "COLUMNS": "100",
        **variables,
    }
    command = [sys.executable, "-m", "briskrl", *words]
    return subprocess.run(
        command, env=environment, capture_output=True, text=True, timeout=300, check=False
    )
