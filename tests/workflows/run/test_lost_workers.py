"""A search goes on if the process of a job is killed, and finds the same."""

from __future__ import annotations

import os
import signal
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import psutil
import pytest

from briskrl.workflows.config import SearcherConfig
from briskrl.workflows.run.ledger import LEDGER, JobRecord
from briskrl.workflows.run.reporter import SilentReporter
from briskrl.workflows.run.run import run_workflows
from tests.workflows.run.tiny import facts, tiny


class Killer(SilentReporter):
    """Kills the process of a job in the middle of its training, once."""

    def __init__(self, job: str) -> None:
        self._job = job
        self.killed: list[int] = []

    def on_progress(self, job: JobRecord, values: Mapping[str, Any]) -> None:
        """Kill it after its first update."""
        if job.name == self._job and not self.killed:
            self.killed = [process.pid for process in workers()]
            for pid in self.killed:
                os.kill(pid, signal.SIGKILL)


def workers() -> list[psutil.Process]:
    """Processes of this one that run jobs; others only keep track of shared memory."""
    children = psutil.Process().children(recursive=True)
    return [child for child in children if "resource_tracker" not in " ".join(child.cmdline())]


@pytest.mark.slow
def test_a_job_whose_process_is_killed_goes_on_as_if_nothing_had_happened(tmp_path: Path):
    changes: dict[str, Any] = {
        "max_episodes": 40,
        "total_episodes": 5_000,
        "searcher": SearcherConfig(max_workflows=3),
        "stop": {"stop_rule": "fixed"},
    }
    whole = run_workflows(tiny(tmp_path / "whole", **changes), "search")
    killer = Killer("jobs/wf_024_v1")
    cut = run_workflows(
        tiny(tmp_path / "cut", executor="local", **changes), "search", reporter=killer
    )
    assert len(killer.killed) == 1
    assert cut.stopped == "finished"
    assert facts(cut.jobs) == facts(whole.jobs)
    events = (tmp_path / "cut" / LEDGER).read_text().splitlines()
    (retry,) = [line for line in events if '"retried"' in line]
    assert "jobs/wf_024_v1" in retry
