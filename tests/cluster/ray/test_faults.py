"""Lost workers, nodes and drivers cost no result: a run ends with the bits of an undisturbed one.

Run with: pytest -m slow tests/cluster/ray
"""

from __future__ import annotations

import json
import os
import re
import shutil
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import psutil
import pytest

import briskrl
from briskrl.cluster.executor import Executor
from briskrl.cluster.job import JobDone, JobEvent, JobFailed, JobProgress, JobRetried
from briskrl.cluster.ray.executor import RayExecutor
from briskrl.cluster.run_job import Evaluation, RunJob
from briskrl.cluster.settings import ExecutorConfig
from briskrl.training.config import TrainConfig
from briskrl.training.loop import train
from tests.cluster import jobs
from tests.cluster.executor_contract import PATIENCE_S, end_of, run_all, wait_for, wait_until
from tests.cluster.random_kills import STEPS_PER_KILL, kill_at_random
from tests.cluster.ray.conftest import ROOT
from tests.cluster.ray.simulated import (
    add_node,
    node_of_worker,
    pid_of_actor,
    simulated_cluster,
)
from tests.cluster.run_configs import long_config as frequently_saving
from tests.training.runs import fused_config, policy_hash

pytestmark = pytest.mark.slow

STEPS = 800_000
DRIVER = """
import json, sys
from pathlib import Path
from briskrl.cluster.run_job import Evaluation, RunJob
from briskrl.cluster.settings import ExecutorConfig, open_executor
from tests.cluster.ray.test_faults import long_config

settings = ExecutorConfig(executor="ray", address=sys.argv[1], jobs=1)
with open_executor(settings, Path(sys.argv[2])) as executor:
    executor.submit(RunJob("run", long_config(), Evaluation(episodes=4)))
    while (event := executor.wait()) is not None:
        print(type(event).__name__, json.dumps(getattr(event, "result", None)), flush=True)
"""


def long_config(folder: Path = Path("unused")) -> TrainConfig:
    """A run that takes some seconds and saves often."""
    return fused_config(folder, steps=STEPS, checkpoint_steps=10_000)


@pytest.fixture(scope="module")
def undisturbed(tmp_path_factory: pytest.TempPathFactory) -> str:
    """Hash of the model of a run that nothing has disturbed."""
    folder = tmp_path_factory.mktemp("undisturbed") / "run"
    train(long_config(folder))
    return policy_hash(folder)


@pytest.fixture(scope="module")
def cluster_of_one() -> Iterator[Any]:
    with simulated_cluster() as cluster:
        add_node(cluster, cpus=1)
        yield cluster


def open_ray(cluster: Any, folder: Path) -> RayExecutor:
    return RayExecutor(ExecutorConfig(executor="ray", address=cluster.address, jobs=1), folder)


def disturb(executor: Executor, folder: Path, fault: Callable[[], object]) -> list[JobEvent]:
    """Run the long job, with a fault as soon as the driver has a copy of a checkpoint."""
    start_long_job(executor, folder)
    fault()
    events = wait_for(executor, JobRetried, "run")
    return events + wait_for(executor, JobDone, "run")


def start_long_job(executor: Executor, folder: Path) -> None:
    """Submit it, and wait until the driver has a copy of a checkpoint."""
    executor.submit(RunJob("run", long_config(), Evaluation(episodes=4)))
    wait_for(executor, JobProgress, "run")
    wait_until(lambda: (folder / "run" / "checkpoints" / "LATEST").exists())


def test_a_removed_node_costs_one_retry_on_another_one(undisturbed: str, tmp_path: Path):
    with simulated_cluster() as cluster:
        add_node(cluster, cpus=1)
        add_node(cluster, cpus=1)
        with open_ray(cluster, tmp_path) as executor:
            events = disturb(
                executor,
                tmp_path,
                lambda: cluster.remove_node(node_of_worker(cluster), allow_graceful=False),
            )
    retried = [event for event in events if isinstance(event, JobRetried)]
    assert [event.cause for event in retried] == ["its process was lost with its node"]
    assert end_of(events, "run").result["model_sha256"] == undisturbed
    assert policy_hash(tmp_path / "run") == undisturbed


def test_a_killed_actor_costs_one_retry(cluster_of_one: Any, undisturbed: str, tmp_path: Path):
    with open_ray(cluster_of_one, tmp_path) as executor:
        events = disturb(executor, tmp_path, lambda: os.kill(pid_of_actor(), signal.SIGKILL))
    assert end_of(events, "run").result["model_sha256"] == undisturbed


def test_a_killed_worker_costs_one_retry(cluster_of_one: Any, undisturbed: str, tmp_path: Path):
    with open_ray(cluster_of_one, tmp_path) as executor:

        def kill_worker() -> None:
            (worker,) = psutil.Process(pid_of_actor()).children()
            worker.kill()

        events = disturb(executor, tmp_path, kill_worker)
    retried = [event for event in events if isinstance(event, JobRetried)]
    assert [event.cause for event in retried] == ["its process was killed by SIGKILL"]
    assert end_of(events, "run").result["model_sha256"] == undisturbed


def test_a_job_that_is_killed_at_ten_random_moments_ends_with_the_same_bits(
    cluster_of_one: Any, tmp_path: Path
):
    kills = 10
    train(frequently_saving(tmp_path / "whole", steps=STEPS_PER_KILL * (kills + 1)))
    settings = ExecutorConfig(executor="ray", address=cluster_of_one.address, jobs=1, retries=kills)
    with RayExecutor(settings, tmp_path) as executor:
        found = kill_at_random(
            executor, kills, lambda: psutil.Process(pid_of_actor()).children()[0].pid
        )
    assert found == (kills, policy_hash(tmp_path / "whole"))


def test_a_killed_raylet_costs_one_retry_when_the_node_is_back(undisturbed: str, tmp_path: Path):
    actors = []
    with simulated_cluster() as cluster:
        node = add_node(cluster, cpus=1)
        with open_ray(cluster, tmp_path) as executor:

            def kill_raylet() -> None:
                actors.append(pid_of_actor())
                node.all_processes["raylet"][0].process.kill()
                add_node(cluster, cpus=1)

            events = disturb(executor, tmp_path, kill_raylet)
    assert end_of(events, "run").result["model_sha256"] == undisturbed
    assert not any(map(psutil.pid_exists, actors))


def test_a_killed_driver_leaves_nothing_and_is_continued(
    cluster_of_one: Any, undisturbed: str, tmp_path: Path
):
    with start_driver(cluster_of_one, tmp_path) as driver:
        wait_until(lambda: (tmp_path / "run" / "checkpoints" / "LATEST").exists())
        workers = find_workers()
        driver.kill()
    assert workers
    wait_until(lambda: not find_workers())
    with start_driver(cluster_of_one, tmp_path) as second:
        lines = second.communicate(timeout=PATIENCE_S)[0].splitlines()
    assert json.loads(lines[-1].partition(" ")[2])["model_sha256"] == undisturbed
    metrics = (tmp_path / "run" / "metrics.jsonl").read_bytes()
    with start_driver(cluster_of_one, tmp_path) as third:
        again = third.communicate(timeout=PATIENCE_S)[0].splitlines()
    assert [line.partition(" ")[0] for line in again] == ["JobStarted", "JobDone"]
    assert again[-1] == lines[-1]
    assert (tmp_path / "run" / "metrics.jsonl").read_bytes() == metrics


def start_driver(cluster: Any, folder: Path) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, "-c", DRIVER, cluster.address, str(folder)],
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        stdout=subprocess.PIPE,
        text=True,
    )


def find_workers() -> list[int]:
    """Worker processes for jobs and their actors, of this test's process tree."""
    return [
        process.pid
        for process in psutil.Process().children(recursive=True)
        if "JobHost" in process.name() or "briskrl.cluster.worker" in process.cmdline()
    ]


@pytest.mark.parametrize(
    ("change", "cause"),
    [
        ("version", r"has briskrl 9\.9\.9, and the driver has"),
        ("module", "cannot import briskrl as it is here .*No module named"),
    ],
)
def test_a_node_with_another_briskrl_is_refused(
    change: str, cause: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    # Ray lets workers import from the current folder of the driver.
    monkeypatch.chdir(tmp_path)
    other = tmp_path / "other"
    package = Path(briskrl.__file__).parent
    shutil.copytree(package, other / "briskrl", ignore=shutil.ignore_patterns("__pycache__"))
    if change == "version":
        init = other / "briskrl" / "__init__.py"
        text = init.read_text()
        assert f'"{briskrl.__version__}"' in text
        init.write_text(text.replace(f'"{briskrl.__version__}"', '"9.9.9"'))
    else:
        shutil.rmtree(other / "briskrl" / "cluster" / "ray")
    with simulated_cluster() as cluster:
        add_node(cluster, cpus=1, PYTHONPATH=str(other))
        with open_ray(cluster, tmp_path / "storage") as executor:
            failed = end_of(run_all(executor, [jobs.Square("one")]), "one")
    assert isinstance(failed, JobFailed)
    assert re.search(cause, failed.cause), failed.cause
