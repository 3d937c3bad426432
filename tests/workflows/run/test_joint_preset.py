"""One policy obeys nearly all workflows of CAGE-2: `pytest -m slow` on this file, half a minute."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from briskrl.workflows.run.config import WorkflowConfig
from briskrl.workflows.run.presets import find_preset
from briskrl.workflows.run.run import run_workflows
from briskrl.workflows.run.tables import read_table


@pytest.mark.slow
def test_one_policy_obeys_most_workflows_after_40_000_episodes(tmp_path: Path):
    """With the default bonus, 30 of 120 are obeyed after four times as many episodes."""
    preset: dict[str, Any] = {**find_preset("cage2-joint")}
    env_config = preset.pop("env_config")
    task_config = {**env_config["task_config"], "response_prob": 0.5}
    found = run_workflows(
        WorkflowConfig(
            **preset,
            seed=1,
            total_episodes=40_000,
            finetune=0,
            final_eval_episodes=50,
            plain_ppo="no",
            run_dir=str(tmp_path / "run"),
            env_config={**env_config, "task_config": task_config},  # type: ignore[arg-type]
        ),
        "joint",
    )
    rows = read_table(found.info.folder / "sweep.csv")
    pooled, contested = (
        np.array([float(row[name]) for row in rows])
        for name in ("compliance_pooled", "compliance_contested")
    )
    assert len(rows) == 120
    assert (pooled >= 0.95).sum() >= 90
    assert (contested >= 0.85).sum() >= 90
