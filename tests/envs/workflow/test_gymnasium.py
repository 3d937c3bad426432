"""A user's own Gymnasium environment with workflows, in this process and in worker processes."""

from __future__ import annotations

import json
from contextlib import closing
from pathlib import Path
from typing import Any

import gymnasium
import numpy as np
import pytest

from briskrl import ConfigError
from briskrl.cli.main import main
from briskrl.core.errors import BriskError
from briskrl.core.types import StepBuffers
from briskrl.envs.make import make_env
from briskrl.envs.workflow.config import WorkflowEnvConfig
from briskrl.envs.workflow.env import WorkflowVecEnv
from tests.envs.workflow import subnets
from tests.envs.workflow.reference import Episode

NAME = "workflow:gym:brisktest/Subnets-v0"
TASKS = "tests.envs.workflow.subnets"


def config(task: str = "by_action", backend: str = "sync", **options: Any) -> WorkflowEnvConfig:
    settings = {"backend": backend, "workers": 2} if backend == "process" else {"backend": backend}
    settings |= options.pop("task_config", {})
    return WorkflowEnvConfig(task=f"{TASKS}:{task}", task_config=settings, **options)


def opened(num_envs: int, settings: WorkflowEnvConfig) -> tuple[WorkflowVecEnv, StepBuffers]:
    env = make_env(NAME, num_envs, config=settings)
    assert isinstance(env, WorkflowVecEnv)
    out = StepBuffers.allocate(env.env_spec, num_envs)
    env.start(17, out)
    return env, out


@pytest.mark.parametrize("task", ["by_action", "by_event", "OwnTask"])
def test_incidents_are_judged_by_the_true_state(task: str) -> None:
    """Beside a plain copy of the environment with the same seed."""
    env, out = opened(1, config(task, workflow="plant>dmz>office", alignment_lambda=10.0))
    plain = gymnasium.make("brisktest/Subnets-v0")
    obs, _ = plain.reset(seed=17)
    rng, episode, episodes = np.random.default_rng(0), Episode([2, 0, 1], weight=10.0), []
    with closing(env):
        for _ in range(400):
            np.testing.assert_array_equal(out.obs[0, : subnets.HOSTS], obs)
            before = set(np.flatnonzero(subnets.is_open(plain)).tolist())
            action = int(rng.integers(subnets.HOSTS + 1))
            obs, reward, terminated, truncated, _ = plain.step(action)
            addressed = action // 2 if action < subnets.HOSTS else -1
            if task == "by_event":
                addressed = plain.unwrapped.cleaned  # type: ignore[attr-defined]
            env.step_into(np.array([action]), out)
            ended = terminated or truncated
            bonus = episode.step(before, addressed, ended=ended)
            assert out.reward[0] == pytest.approx(float(reward) + bonus, abs=1e-4)
            if ended:
                np.testing.assert_array_equal(out.final_obs[0, : subnets.HOSTS], obs)
                episodes.append(episode)
                episode = Episode([2, 0, 1], weight=10.0)
                obs, _ = plain.reset()
        found = env.drain_compliance()
    assert found.judged.tolist() == [len(e.verdicts) for e in episodes]
    assert found.ok.tolist() == [e.ok for e in episodes]
    assert found.contested.sum() > 50


def test_worker_processes_report_the_same_incidents() -> None:
    rewards, records = {}, {}
    for backend in ("sync", "process"):
        env, out = opened(5, config(backend=backend))
        rng = np.random.default_rng(0)
        with closing(env):
            rows = []
            for _ in range(120):
                env.step_into(rng.integers(subnets.HOSTS + 1, size=5), out)
                rows.append(np.concatenate([out.obs.ravel(), out.reward]))
            rewards[backend] = np.array(rows)
            records[backend] = env.drain_compliance()
    np.testing.assert_array_equal(rewards["sync"], rewards["process"])
    assert records["sync"].judged.sum() > 100
    for name in ("ok", "judged", "contested", "open_steps", "spells", "workflow_id"):
        np.testing.assert_array_equal(
            getattr(records["sync"], name), getattr(records["process"], name)
        )


def test_incidents_are_not_part_of_the_observation() -> None:
    env, _ = opened(2, config())
    with closing(env):
        assert env.env_spec.obs.shape == (subnets.HOSTS + 9,)
        assert env.env_spec.obs.low == -1.0
        assert env.space.parse("plant-first").order == (2, 1, 0)


@pytest.mark.parametrize(
    ("task", "match"),
    [
        ("missing", "has no 'missing'"),
        ("NOT_CALLABLE", "function or a class"),
        ("not_a_task", "no WorkflowTask"),
    ],
)
def test_what_is_no_task_is_refused(task: str, match: str) -> None:
    with pytest.raises(ConfigError, match=match):
        make_env(NAME, 2, config=config(task))


def test_a_table_for_other_actions_is_refused() -> None:
    with pytest.raises(ConfigError, match="7 actions"):
        make_env("workflow:gym:CartPole-v1", 2, config=config())


@pytest.mark.parametrize("backend", ["compiled", "vector"])
def test_backends_without_incidents_are_refused(backend: str) -> None:
    with pytest.raises(ConfigError, match="cannot report incidents"):
        make_env(NAME, 2, config=config(backend=backend))


def test_a_category_that_does_not_exist_stops_the_environment() -> None:
    env, out = opened(1, config("broken"))
    with closing(env), pytest.raises(BriskError, match="category 3"):
        env.step_into(np.array([0]), out)


def test_a_task_in_a_file_trains_evaluates_and_plays(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    source = Path(subnets.__file__).read_text().replace("brisktest/Subnets-v0", "OwnSubnets-v0")
    (tmp_path / "own_subnets.py").write_text(source)
    monkeypatch.chdir(tmp_path)
    flags = ["--task", "own_subnets.py:by_action", "--task-config", "backend=sync"]
    train = ["train", "workflow:gym:OwnSubnets-v0", "--algo", "ppo", "--steps", "2000"]
    assert main([*train, *flags, "--num-envs", "8", "--run-dir", "run"]) == 0
    monkeypatch.chdir("/")
    capfd.readouterr()
    assert main(["eval", str(tmp_path / "run"), "--episodes", "5", "--json"]) == 0
    assert json.loads(capfd.readouterr().out)["episodes"] == 5
