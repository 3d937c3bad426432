"""Evaluation under workflows: common random numbers, and the baselines on CAGE-2."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from briskrl import ConfigError
from briskrl.envs.cage2.workflow_task import NAMED
from briskrl.envs.workflow.config import WorkflowEnvConfig
from briskrl.training.evaluate import load_policy
from briskrl.training.loop import train
from briskrl.training.workflow_evaluation import (
    WorkflowEvaluation,
    WorkflowEvaluator,
    evaluate_player,
    evaluate_workflow,
)
from briskrl.training.workflow_players import (
    OraclePlayer,
    PolicyPlayer,
    RandomPlayer,
    WorkflowPlayer,
)
from tests.training.runs import fused_config

EPISODES = 200


def cage2(**settings: Any) -> WorkflowEnvConfig:
    return WorkflowEnvConfig(task_config=settings)


def evaluations(
    player: WorkflowPlayer, config: WorkflowEnvConfig, *names: str
) -> list[WorkflowEvaluation]:
    with WorkflowEvaluator("cage2", config, num_envs=EPISODES) as evaluator:
        flows = [evaluator.space.parse(name) for name in names]
        return [evaluator.evaluate(player, flow, episodes=EPISODES, seed=0) for flow in flows]


@pytest.mark.parametrize("red", ["bline", "meander"])
def test_without_scarce_responses_the_order_means_nothing(red: str) -> None:
    found = evaluations(OraclePlayer(), cage2(red=red), *NAMED)
    for other in found:
        np.testing.assert_array_equal(other.returns, found[0].returns)
        assert other.compliance == 1.0
        assert other.contested_share == 0.0
        assert np.isnan(other.contested_compliance)


@pytest.mark.parametrize(("red", "prob", "gap"), [("bline", 0.15, 50), ("meander", 0.25, 50)])
def test_with_scarce_responses_critical_first_is_better(red: str, prob: float, gap: float) -> None:
    config = cage2(red=red, response_prob=prob)
    found = evaluations(OraclePlayer(), config, *NAMED)
    assert all(each.compliance == each.contested_compliance == 1.0 for each in found)
    by_name = dict(zip(NAMED, found, strict=True))
    paired = by_name["critical-first"].returns - by_name["user-first"].returns
    assert paired.mean() > gap
    assert by_name["critical-first"].contested_share > 0.3


@pytest.mark.parametrize("red", ["bline", "meander"])
def test_random_actions_rarely_obey(red: str) -> None:
    found = evaluations(RandomPlayer(), cage2(red=red, response_prob=0.5), *NAMED)
    assert all(0.05 < each.compliance < 0.4 for each in found)


def test_seeds_decide_the_episodes_and_workflows_do_not() -> None:
    """Random players take the same actions in the same networks."""
    config = cage2(red="mixed", length=30)
    one, other = evaluations(RandomPlayer(), config, "critical-first", "user-first")
    np.testing.assert_array_equal(one.returns, other.returns)
    assert one.compliance != other.compliance
    seeds = [
        evaluate_player(RandomPlayer(), "cage2", "0", config=config, episodes=20, seed=seed)
        for seed in (1, 1, 2)
    ]
    np.testing.assert_array_equal(seeds[0].returns, seeds[1].returns)
    assert (seeds[0].returns != seeds[2].returns).any()


def test_each_environment_contributes_its_first_episode_in_several_waves() -> None:
    with WorkflowEvaluator("cage2", cage2(red="bline", length=9), num_envs=7) as evaluator:
        flow = evaluator.space.parse("critical-first")
        found = evaluator.evaluate(OraclePlayer(), flow, episodes=16, seed=3)
    assert found.records.env.tolist() == list(range(16))
    assert (found.records.steps == 9).all()
    assert (found.records.workflow_id == flow.id).all()


def test_exposure_and_pairs_follow_from_the_counters() -> None:
    (found,) = evaluations(OraclePlayer(), cage2(red="bline", response_prob=0.25), "user-first")
    records = found.records
    assert found.open_share[0] == found.open_share[3] == 0
    assert np.isnan(found.spell_length[0])
    steps = found.spell_length[[1, 2, 4]] * found.open_spells[[1, 2, 4]]
    np.testing.assert_allclose(steps, records.open_steps.sum(axis=0)[[1, 2, 4]])
    assert (found.pair_shares <= found.contested_share).all()
    assert found.as_json()["contested_compliance"] == 1.0
    assert found.as_json()["open_share"]["defender"] == 0.0


def test_a_trained_policy_is_evaluated_greedily_and_by_drawing(tmp_path: Path) -> None:
    settings = {"task_config": {"red": "bline", "length": 20, "response_prob": 0.5}}
    train(fused_config(tmp_path / "run", "ppo", env="workflow:cage2", env_config=settings))
    agent = load_policy(tmp_path / "run")
    config = WorkflowEnvConfig(**settings)
    found = {}
    for stochastic in (True, False):
        player = PolicyPlayer(agent.policy, stochastic=stochastic)
        again = [
            evaluate_player(player, "cage2", "24", config=config, episodes=30, seed=1)
            for _ in range(2)
        ]
        np.testing.assert_array_equal(again[0].returns, again[1].returns)
        found[stochastic] = again[0]
    assert (found[True].returns != found[False].returns).any()
    of_run = evaluate_workflow(tmp_path / "run", "24", episodes=30, seed=1)
    np.testing.assert_array_equal(of_run.returns, found[True].returns)


def test_a_run_without_workflows_is_refused(tmp_path: Path) -> None:
    train(fused_config(tmp_path / "run", "ppo", env="cartpole"))
    with pytest.raises(ConfigError, match="no workflows"):
        evaluate_workflow(tmp_path / "run", "0")


def test_a_task_without_an_oracle_says_so() -> None:
    config = WorkflowEnvConfig(task="tests.envs.workflow.own_tasks:left_or_right")
    with pytest.raises(ConfigError, match="no oracle"):
        evaluate_player(OraclePlayer(), "cartpole", "left>right", config=config, episodes=2)
