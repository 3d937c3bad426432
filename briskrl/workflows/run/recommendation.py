"""The best workflows of a run by what is known so far."""

from __future__ import annotations

from collections.abc import Mapping

from briskrl.workflows.run.ledger import JobRecord
from briskrl.workflows.run.results import (
    Scored,
    latest_per_workflow,
    restore_searcher,
    scored_workflows,
)
from briskrl.workflows.run.setup import RunSetup

BEST = 5
"""Workflows of the closing evaluation."""


def best_scored(setup: RunSetup, jobs: Mapping[str, JobRecord], count: int) -> list[Scored]:
    """The best workflows, the recommended one first; without feasible ones the most compliant."""
    latest = latest_per_workflow(scored_workflows(jobs.values()))
    ranking = restore_searcher(setup, jobs).ranking()
    return [latest[row.workflow.id] for row in ranking[:count]]
