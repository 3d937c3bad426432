"""Whole searches of a user's own environment with two, eight and twelve categories."""

from __future__ import annotations

from math import factorial
from pathlib import Path

import pytest

from briskrl.envs.workflow.config import WorkflowEnvConfig
from briskrl.workflows.config import SearcherConfig
from briskrl.workflows.run.run import run_workflows
from briskrl.workflows.run.tables import read_table
from tests.workflows.run.many_tasks import LENGTH
from tests.workflows.run.tiny import tiny

TASKS = "tests.workflows.run.many_tasks"


@pytest.mark.parametrize(("kinds", "name"), [(2, "two"), (8, "eight"), (12, "twelve")])
def test_a_search_works_for_any_number_of_categories(kinds: int, name: str, tmp_path: Path):
    """From 5,041 orders on, candidates are generated, and nothing ever lists all orders."""
    most = min(factorial(kinds), kinds + 3)
    found = run_workflows(
        tiny(
            tmp_path / "run",
            task=f"gym:brisktest/Machines{kinds}-v0",
            num_envs=10,
            total_episodes=1_000,
            base_episodes=20,
            max_episodes=1,
            eval_episodes=10,
            final_eval_episodes=10,
            env_config=WorkflowEnvConfig(task=f"{TASKS}:{name}", task_config={"backend": "sync"}),
            searcher=SearcherConfig(max_workflows=most, max_visits=1),
        ),
        "search",
    )
    assert found.stopped == "finished"
    assert found.info.setup.space.size == factorial(kinds)
    rows = read_table(found.info.folder / "workflows.csv")
    assert len(rows) == len({row["workflow_id"] for row in rows}) == most
    assert all(len(row["workflow"].split(">")) == kinds for row in rows)
    phases = [row["phase"] for row in read_table(found.info.folder / "search.csv")]
    # The design has m + 1 orders; the model chooses the others.
    assert phases == ["design"] * min(most, kinds + 1) + ["model"] * max(0, most - kinds - 1)
    assert -LENGTH * kinds <= found.best.evaluated.score <= 0
    assert len(read_table(found.info.folder / "exposure.csv")) == most * kinds
    assert (found.info.folder / "report.html").is_file()
