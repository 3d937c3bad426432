"""Training with a workflow: what PPO learns from, and resume."""

from __future__ import annotations

from contextlib import closing
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from briskrl.core.types import StepBuffers
from briskrl.envs.make import make_env
from briskrl.training.evaluate import evaluate
from briskrl.training.loop import resume, train
from briskrl.training.resolve import complete
from briskrl.training.trainer import Trainer
from tests.training.runs import fused_config, policy_hash

CAGE2: dict[str, Any] = {
    "env": "workflow:cage2",
    "env_config": {
        "task_config": {"red": "bline", "length": 7, "response_prob": 0.5, "start_compromised": 3}
    },
}
STEPS = 12
"""Of a rollout; see `tests.training.runs`."""


@pytest.mark.parametrize("engine", ["fused", "torch"])
def test_stored_observations_are_those_that_actions_were_chosen_from(
    tmp_path: Path, engine: str
) -> None:
    """So the importance ratios of the first epoch are 1."""
    config = complete(fused_config(tmp_path, "ppo", **CAGE2))
    with closing(Trainer(config)) as trainer:
        trainer.algo.engines.use(engine)
        trainer.start()
        for _ in range(2 * STEPS - 1):
            trainer.iterate()
        rollout = trainer.memory.rollouts()[0]
        rows, envs = STEPS - 1, config.num_envs
        found = np.zeros(rows * envs, np.float32)
        trainer.algo.engines.now.log_probs(
            rollout.obs[:rows].reshape(rows * envs, -1),
            rollout.action[:rows].reshape(-1),
            None,
            found,
        )
        ratio = np.exp(found - rollout.behavior_log_prob[:rows].reshape(-1))
    np.testing.assert_allclose(ratio, 1, atol=1e-5)


def test_the_bonus_of_a_step_is_stored_with_its_action(tmp_path: Path) -> None:
    """Two batches replay the stored actions, one of them without a bonus."""
    config = complete(fused_config(tmp_path, "ppo", **CAGE2))
    with closing(Trainer(config)) as trainer:
        trainer.start()
        for _ in range(STEPS - 1):
            trainer.iterate()
        rollout, seed = trainer.memory.rollouts()[0], trainer.start_seed
    count = config.num_envs
    unpaid = replace(config.env_config, alignment_mode="none")
    envs = [make_env("workflow:cage2", count, config=c) for c in (config.env_config, unpaid)]
    outs = [StepBuffers.allocate(env.env_spec, count) for env in envs]
    for env, out in zip(envs, outs, strict=True):
        env.start(seed, out)
    judged_steps = 0
    for t in range(STEPS - 1):
        np.testing.assert_array_equal(rollout.obs[t], outs[0].obs)
        required = envs[0].required
        for env, out in zip(envs, outs, strict=True):
            env.step_into(rollout.action[t], out)
        np.testing.assert_array_equal(rollout.reward[t], outs[0].reward)
        bonus = rollout.reward[t] - outs[1].reward
        judged = (envs[0].task.addressed(rollout.action[t]) >= 0) & (required >= 0)
        ended = outs[0].terminated | outs[0].truncated
        assert not bonus[~judged & ~ended].any()
        judged_steps += int(judged.sum())
    assert judged_steps > 10


def test_a_resumed_run_is_bit_identical(tmp_path: Path) -> None:
    whole, parts = tmp_path / "whole", tmp_path / "parts"
    train(fused_config(whole, "ppo", steps=2880, **CAGE2))
    train(fused_config(parts, "ppo", steps=1136, **CAGE2))
    resume(parts, steps=2880)
    assert policy_hash(parts) == policy_hash(whole)
    assert (parts / "episodes.csv").read_bytes() == (whole / "episodes.csv").read_bytes()


def test_a_run_reports_returns_without_the_bonus(tmp_path: Path) -> None:
    huge = {**CAGE2["env_config"], "alignment_lambda": 1e6}
    result = train(fused_config(tmp_path / "run", "ppo", **{**CAGE2, "env_config": huge}))
    assert result.mean_return is not None
    assert -200 < result.mean_return < 0
    evaluated = evaluate(tmp_path / "run", episodes=20)
    assert -200 < evaluated.mean_return < 0


def test_dqn_can_follow_a_workflow_too(tmp_path: Path) -> None:
    result = train(fused_config(tmp_path / "run", "dqn", **CAGE2))
    assert result.updates > 0
