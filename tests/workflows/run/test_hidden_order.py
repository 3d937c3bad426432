"""A search finds the order that an environment hides."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from briskrl.envs.workflow.config import WorkflowEnvConfig
from briskrl.workflows.config import SearcherConfig
from briskrl.workflows.run.config import WorkflowConfig
from briskrl.workflows.run.outcome import Outcome
from briskrl.workflows.run.run import run_workflows

GRID = {"side": 8, "regions": 3, "region_size": 2, "max_steps": 100}
CHOSEN_WITH = 1
"""Seed that the settings were chosen with; the tests have others."""
SETTINGS: dict[str, Any] = {
    "task": "ordered-visit",
    "num_envs": 128,
    "total_episodes": 150_000,
    "base_episodes": 90_000,
    "max_episodes": 70,
    "eval_episodes": 200,
    "final_eval_episodes": 500,
    "plain_ppo": "no",
    "env_config": WorkflowEnvConfig(
        task_config=GRID, alignment_mode="step", alignment_lambda=50.0, compliance_threshold=0.9
    ),
    "algo_config": {"update_steps": 32, "minibatch_size": 1024, "lr": 2e-3},
}


def searched(folder: Path, strategy: str, seed: int) -> Outcome:
    """A finished search."""
    return run_workflows(
        WorkflowConfig(
            seed=seed,
            run_dir=str(folder),
            searcher=SearcherConfig(strategy=strategy, max_visits=1),
            **SETTINGS,
        ),
        "search",
    )


@pytest.mark.slow
@pytest.mark.parametrize("strategy", ["exhaustive", "gp-ucb"])
def test_the_hidden_order_is_ranked_first(strategy: str, tmp_path: Path):
    found = searched(tmp_path / "run", strategy, CHOSEN_WITH + 1)
    hidden = found.info.setup.space.parse("hidden")
    assert found.best.workflow == hidden
    assert found.best.ranked.feasible
    assert found.runner_up_differs
    if strategy == "exhaustive":
        assert len(found.ranking) == 6
        scores = {one.workflow_id: one.evaluated.score for one in found.scored}
        assert max(scores, key=scores.__getitem__) == hidden.id
