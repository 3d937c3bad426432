"""Jobs that fail, and interruptions in the middle of an evaluation."""

from __future__ import annotations

import math
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from briskrl.cluster.job import JobDone, JobEvent
from briskrl.cluster.serial import SerialExecutor
from briskrl.workflows.config import SearcherConfig
from briskrl.workflows.run import job, run
from briskrl.workflows.run.folder import RunInfo
from briskrl.workflows.run.outcome import Outcome
from briskrl.workflows.run.results import restore_searcher
from briskrl.workflows.run.run import resume_run, run_workflows
from briskrl.workflows.run.tables import read_table
from tests.workflows.run.tiny import facts, tiny

SPOILED = "jobs/wf_006_v1"
"""Job of the first well-known workflow, which every search of CAGE-2 begins with."""
SHORT = {"searcher": SearcherConfig(max_workflows=2)}


class SpoilingExecutor(SerialExecutor):
    """Runs jobs, and replaces the score of one of them by NaN."""

    def wait(self, timeout_s: float | None = None) -> JobEvent | None:
        """See Executor."""
        event = super().wait(timeout_s)
        if not isinstance(event, JobDone) or event.name != SPOILED:
            return event
        (one,) = event.result["evaluations"]
        return JobDone(event.name, {**event.result, "evaluations": [{**one, "score": math.nan}]})


@pytest.fixture
def spoiled(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Outcome:
    """A finished search in which one job had no score."""

    def open_spoiling(info: RunInfo, listen: Callable[[Any], None], _: Any) -> SerialExecutor:
        return SpoilingExecutor(info.folder, listen)

    monkeypatch.setattr(run, "_open_executor", open_spoiling)
    return run_workflows(tiny(tmp_path / "run"), "search")


def test_a_job_without_a_score_fails_and_never_enters_the_surrogate(spoiled: Outcome):
    failed = spoiled.jobs[SPOILED]
    assert (failed.state, failed.cause) == ("failed", "its score is not a number")
    # Its episodes were spent all the same.
    assert failed.episodes > 20
    assert spoiled.stopped == "finished"
    assert len(spoiled.ranking) == 4
    assert 6 not in {one.workflow_id for one in spoiled.scored if one.evaluated is not None}
    searcher = restore_searcher(spoiled.info.setup, spoiled.jobs)
    observed = [result for result in searcher.results if not result.failed]
    assert len(observed) == 4
    assert all(math.isfinite(result.score) for result in observed)
    (row,) = [
        r for r in read_table(spoiled.info.folder / "workflows.csv") if r["job_id"] == SPOILED
    ]
    assert (row["status"], row["stop_reason"], row["score"]) == ("failed", "error", "")


@pytest.mark.parametrize("at", ["jobs/wf_006_v1", "jobs/closing"])
def test_an_interrupted_evaluation_is_done_again(
    at: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    whole = run_workflows(tiny(tmp_path / "whole", **SHORT), "search")
    folder, signals, real = tmp_path / "cut", [], job.evaluate_workflows

    def evaluate(*args: Any, **options: Any) -> Any:
        if (folder / at).is_dir():
            signals.append("sigint")
        return real(*args, **options)

    with monkeypatch.context() as patch:
        patch.setattr(job, "evaluate_workflows", evaluate)
        cut = run_workflows(
            tiny(folder, **SHORT), "search", stop=lambda: signals[0] if signals else None
        )
    assert cut.stopped == "sigint"
    assert not cut.jobs[at].has_ended
    assert facts(resume_run(folder).jobs) == facts(whole.jobs)
