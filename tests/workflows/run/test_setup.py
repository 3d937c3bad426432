"""What the settings of a run amount to."""

from __future__ import annotations

import pytest

from briskrl.core.errors import ConfigError
from briskrl.workflows.run.config import WorkflowConfig
from briskrl.workflows.run.joint import joint_episodes, sweep_ids
from briskrl.workflows.run.presets import find_preset, find_suite
from briskrl.workflows.run.setup import make_setup


def test_ppo_has_four_minibatches_unless_given():
    assert make_setup(WorkflowConfig()).ppo.minibatch_size == 200 * 50 // 4
    given = WorkflowConfig(algo_config={"minibatch_size": 123, "lr": 5e-4})
    assert (make_setup(given).ppo.minibatch_size, make_setup(given).ppo.lr) == (123, 5e-4)
    assert make_setup(WorkflowConfig()).ppo.lr_schedule == "constant"


def test_a_tenth_of_the_episodes_is_for_the_base():
    assert make_setup(WorkflowConfig()).base_episodes == 10_000
    assert make_setup(WorkflowConfig(base_episodes=77)).base_episodes == 77
    assert make_setup(WorkflowConfig(warm_start="last")).base_episodes == 0


def test_plain_ppo_sees_no_workflow_and_gets_no_bonus():
    setup = make_setup(WorkflowConfig())
    plain = setup.train_config(workflow=None, seed=0, plain=True).env_config
    assert (plain.encoding, plain.alignment_mode) == ("none", "none")
    assert setup.train_config(workflow="6", seed=0).env_config.encoding == "position"


def test_nested_settings_may_be_mappings():
    config = WorkflowConfig(
        env_config={"task_config": {"red": "bline"}, "compliance_threshold": 0.9},
        searcher={"max_workflows": 3},
        stop={"stop_rule": "gate"},
    )
    setup = make_setup(config)
    assert setup.threshold == setup.searcher_config.compliance_threshold == 0.9
    assert setup.config.stop.stop_rule == "gate"


def test_the_leaderboard_has_three_attackers_and_three_lengths():
    scenarios = find_suite("cage2", "leaderboard")
    kinds = {(s.task_config["red"], s.task_config["length"]) for s in scenarios}
    assert len(kinds) == len(scenarios) == 9
    assert make_setup(WorkflowConfig(suite="leaderboard")).budget.eval_episodes == 1800
    with pytest.raises(ConfigError, match="no suite"):
        find_suite("ordered-visit", "leaderboard")


def test_the_parity_preset_scores_as_soon_as_a_workflow_is_obeyed():
    preset = find_preset("cage2-parity")
    setup = make_setup(WorkflowConfig(**preset))
    assert (setup.config.stop.stop_rule, setup.config.warm_start) == ("gate", "last")
    assert setup.ppo.minibatches(200) == 1
    assert (setup.ppo.gae_lambda, setup.ppo.lr) == (1.0, 2e-3)


def test_the_joint_preset_gives_each_workflow_its_own_lambda_and_blue_a_memory():
    setup = make_setup(WorkflowConfig(**find_preset("cage2-joint")))
    env_config = setup.train_config(workflow=None, seed=0).env_config
    assert (env_config.alignment_mode, env_config.lambda_scope) == ("adaptive", "workflow")
    # The Lagrangian of a compliance of 0.95: nothing is gained by obeying just as much.
    assert env_config.violation_weight == pytest.approx(0.95 / 0.05)
    assert env_config.task_config == {"restore_memory": True, "event_memory": True}
    assert (setup.ppo.lr_schedule, setup.ppo.lr) == ("linear", 2e-3)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"warm_start": "none", "base_episodes": 5}, "base_episodes is for"),
        ({"base_episodes": 0}, "needs base_episodes"),
        ({"env_config": {"workflow": "balanced"}}, "chosen by the run"),
        ({"address": "auto"}, "executor = ray"),
        ({"task": "workflow:cage2"}, "without its prefix"),
        ({"searcher": {"strategy": "list"}}, "needs workflows"),
        ({"algo_config": {"lr": -1}}, "lr"),
    ],
)
def test_settings_that_do_not_fit_are_refused(changes, message):
    with pytest.raises(ConfigError, match=message):
        make_setup(WorkflowConfig(**changes))


def test_joint_training_gets_what_sweep_and_refinement_leave():
    setup = make_setup(WorkflowConfig(total_episodes=200_000))
    assert len(sweep_ids(setup)) == 120
    assert joint_episodes(setup) == 200_000 - 120 * 50 - 3 * 10_200
    assert joint_episodes(make_setup(WorkflowConfig(total_episodes=20_000))) == 8_000
    with pytest.raises(ConfigError, match="smallest number is 8858"):
        joint_episodes(make_setup(WorkflowConfig(total_episodes=8_000)))
    assert joint_episodes(make_setup(WorkflowConfig(total_episodes=8_858))) >= 200
