"""Tasks made of a table of actions or of events, and what cannot be one."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from briskrl import ConfigError
from briskrl.core.types import StepBuffers
from briskrl.envs.make import make_env
from briskrl.envs.snake.config import SnakeConfig
from briskrl.envs.workflow.config import WorkflowEnvConfig
from briskrl.envs.workflow.env import WorkflowVecEnv
from briskrl.envs.workflow.task import ActionTableTask, EventTask
from tests.envs.workflow.scripted import Script, ScriptedEnv, scripted, task_of


def closed(env: Any) -> np.ndarray:
    return np.zeros((env.num_envs, 2), np.bool_)


@pytest.mark.parametrize(
    ("categories", "table", "match"),
    [
        (("a",), [0], "needs 2 to 12"),
        (("a", "b"), [0, 0, -1], "No action works on b"),
        (("a", "b"), [0, 1, 2], "from -1 to 1"),
        (("a", "b"), [0, 1, -2], "from -1 to 1"),
        (("a", "A"), [0, 1], "differ"),
    ],
)
def test_a_table_that_makes_no_task_is_refused(
    categories: tuple[str, ...], table: list[int], match: str
) -> None:
    with pytest.raises(ConfigError, match=match):
        ActionTableTask(categories, table, closed)


def test_a_table_for_other_actions_is_refused() -> None:
    with pytest.raises(ConfigError, match="3 actions"):
        WorkflowVecEnv(make_env("cartpole", 2), ActionTableTask("ab", [0, 1, -1], closed))


@pytest.mark.parametrize("action", [-1, 3])
def test_an_action_outside_the_table_is_an_error_in_debug_mode(action: int) -> None:
    script = Script.random(np.random.default_rng(0), 5, 2, 2)
    task = task_of(2, debug=True)
    env = WorkflowVecEnv(ScriptedEnv(script), task)
    out = StepBuffers.allocate(env.env_spec, 2)
    env.start(0, out)
    with pytest.raises(ValueError, match=f"action {action} of env 1"):
        env.step_into(np.array([0, action]), out)


def test_events_can_be_what_is_judged() -> None:
    """The second of two milestones is wanted first."""
    events = [-1, 1, 0, -1]
    task = EventTask(
        ("first", "second"),
        event_fn=lambda env: [events[env.now - 1]],
        open_fn=lambda env: [[0 not in events[: env.now], 1 not in events[: env.now]]],
    )
    script = Script.single([set()] * 4, 1, ends=True)
    config = WorkflowEnvConfig(workflow="second>first", alignment_mode="step")
    env = WorkflowVecEnv(ScriptedEnv(script), task, config, alignment_lambda=10.0)
    out = StepBuffers.allocate(env.env_spec, 1)
    env.start(0, out)
    rewards = []
    for _ in range(4):
        env.step_into(np.array([0]), out)
        rewards.append(float(out.reward[0]))
    assert rewards == [0, 1, 1, 0]
    assert env.drain_compliance().contested.tolist() == [1]


def test_a_mask_of_the_wrong_shape_is_refused_at_the_start() -> None:
    script = Script.random(np.random.default_rng(0), 5, 2, 2)
    task = ActionTableTask("ab", [0, 1, -1], lambda env: [True, False])
    env = WorkflowVecEnv(ScriptedEnv(script), task)
    task._open = np.zeros(2, np.bool_)
    with pytest.raises(ValueError, match="open_mask must return"):
        env.start(0, StepBuffers.allocate(env.env_spec, 2))


def test_planes_cannot_be_conditioned() -> None:
    env = make_env("snake", 2, config=SnakeConfig(obs="grid"))
    with pytest.raises(ConfigError, match="vector"):
        WorkflowVecEnv(env, ActionTableTask("abc", [0, 1, 2], closed))


def test_an_environment_without_a_task_is_refused_with_the_known_ones() -> None:
    with pytest.raises(ConfigError, match=r"no built-in task.*cage2"):
        make_env("workflow:cartpole", 2)
    with pytest.raises(ConfigError, match="names no environment"):
        make_env("workflow:", 2)
    with pytest.raises(ConfigError, match="Cannot import"):
        make_env("workflow:cartpole", 2, config=WorkflowEnvConfig(task="no_such_module:x"))
    with pytest.raises(ConfigError, match="lenght"):
        make_env("workflow:cage2", 2, config=WorkflowEnvConfig(task_config={"lenght": 30}))


def test_a_hidden_random_workflow_is_refused() -> None:
    with pytest.raises(ConfigError, match="hides"):
        scripted(Script.random(np.random.default_rng(0), 5, 2, 2), encoding="none")
    script = Script.random(np.random.default_rng(0), 5, 2, 2)
    env, _ = scripted(script, encoding="none", workflow="b>a")
    assert env.env_spec.obs.shape == (2,)
