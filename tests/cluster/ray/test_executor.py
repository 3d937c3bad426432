"""The Ray executor keeps the contract of executors, on a cluster that shares no files with it."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path

import pytest

from briskrl.cluster.executor import Executor
from briskrl.cluster.job import JobContext
from briskrl.cluster.ray.executor import RayExecutor
from briskrl.cluster.ray.rehearsal import Rehearsal
from briskrl.cluster.settings import ExecutorConfig, open_executor
from briskrl.core.errors import BriskError
from briskrl.core.types import JSON
from tests.cluster import jobs
from tests.cluster.executor_contract import ExecutorContract, OpenExecutor, end_of, run_all


@dataclass(frozen=True)
class Where:
    """Returns where it runs."""

    name: str
    num_cpus: int = 1
    num_gpus: float = 0.0

    def run(self, context: JobContext) -> dict[str, JSON]:
        return {"folder": str(context.folder), "parent": os.getppid()}


class TestRayExecutor(ExecutorContract):
    @pytest.fixture
    def open_executor(self, storage: Path, cluster: Rehearsal) -> Iterator[OpenExecutor]:
        with ExitStack() as stack:

            def open_one(
                *, slots: int = 2, retries: int = 3, job_timeout_s: float | None = None
            ) -> Executor:
                settings = ExecutorConfig(
                    executor="ray",
                    address=cluster.address,
                    jobs=slots,
                    retries=retries,
                    job_timeout=job_timeout_s or 0.0,
                )
                return stack.enter_context(RayExecutor(settings, storage))

            yield open_one

    def test_jobs_work_in_temporary_folders_that_are_removed(
        self, open_executor: OpenExecutor, storage: Path
    ):
        executor = open_executor(slots=1)
        folders = [
            Path(end_of(run_all(executor, [Where(name)]), name).result["folder"])
            for name in ("a", "b/c")
        ]
        assert not any(folder.is_relative_to(storage) for folder in folders)
        executor.close()
        assert not any(folder.exists() for folder in folders)
        assert (storage / "b" / "c" / "job.log").exists()

    def test_workers_are_reused(self, open_executor: OpenExecutor):
        executor = open_executor(slots=1)
        pids = [
            end_of(run_all(executor, [jobs.Square(f"job-{n}")]), f"job-{n}").result["pid"]
            for n in range(3)
        ]
        assert len(set(pids)) == 1

    def test_more_gpus_than_the_cluster_has_are_refused(self, open_executor: OpenExecutor):
        with pytest.raises(BriskError, match="GPU"):
            open_executor().submit(jobs.Square("big", num_gpus=1.0))


def test_copies_can_go_to_a_place_that_all_nodes_reach(cluster: Rehearsal, tmp_path: Path):
    settings = ExecutorConfig(
        executor="ray", address="auto", jobs=1, storage=f"file://{tmp_path}/shared"
    )
    with open_executor(settings, tmp_path / "folder") as executor:
        events = run_all(executor, [jobs.Fails("bad", jobs.kill_self)])
    assert end_of(events, "bad").result == {"attempt": 2}
    for place in ("shared", "folder"):
        assert (tmp_path / place / "bad" / "attempts").read_text() == "2"
