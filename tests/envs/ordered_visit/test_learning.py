"""One policy learns to visit the regions in any order that it is given."""

from __future__ import annotations

from pathlib import Path

import pytest

from briskrl.training.config import TrainConfig
from briskrl.training.evaluate import load_policy
from briskrl.training.loop import train
from briskrl.training.workflow_evaluation import WorkflowEvaluator
from briskrl.training.workflow_players import PolicyPlayer

GRID = {"side": 8, "regions": 3, "region_size": 2, "max_steps": 100}
CHOSEN_WITH = 1
"""Seed that the settings were chosen with; the test has another one."""


@pytest.mark.slow
def test_a_joint_policy_obeys_every_order(tmp_path: Path) -> None:
    train(
        TrainConfig(
            env="workflow:ordered-visit",
            env_config={
                "task_config": GRID,
                "alignment_mode": "step",
                "alignment_lambda": 50.0,
            },
            algo="ppo",
            algo_config={"update_steps": 32, "minibatch_size": 1024, "lr": 2e-3},
            num_envs=128,
            steps=4_000_000,
            engine="fused",
            seed=CHOSEN_WITH + 1,
            run_dir=str(tmp_path / "run"),
        )
    )
    agent = load_policy(tmp_path / "run")
    with WorkflowEvaluator("ordered-visit", agent.env_config, num_envs=200) as evaluator:
        for number in range(evaluator.space.size):
            flow = evaluator.space.from_id(number)
            found = evaluator.evaluate(PolicyPlayer(agent.policy), flow, episodes=200, seed=0)
            assert found.compliance >= 0.9, str(flow)
