"""CAGE-2 as a task with workflows: kernels against the true state, and the options for it."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from briskrl import ConfigError
from briskrl.core.types import StepBuffers
from briskrl.envs.cage2 import scenario as s
from briskrl.envs.cage2.config import Cage2Config
from briskrl.envs.cage2.env import Cage2VecEnv
from briskrl.envs.cage2.workflow_task import HOSTS_OF, NAMED, Cage2Task
from briskrl.orders.space import WorkflowSpace
from briskrl.orders.workflow import Workflow

REMOVE, RESTORE = range(15, 28), range(132, 145)


def bound(num_envs: int, **settings: Any) -> tuple[Cage2VecEnv, Cage2Task, StepBuffers]:
    env = Cage2VecEnv(num_envs, **{"length": 40} | settings)
    task = Cage2Task(env.config)
    task.bind(env)
    out = StepBuffers.allocate(env.env_spec, num_envs)
    env.start(11, out)
    return env, task, out


def open_by_truth(env: Cage2VecEnv, task: Cage2Task) -> list[list[bool]]:
    access = env.truth().access
    return [
        [any(row[s.HOST_NAMES.index(h)] for h in hosts) for hosts in task.hosts.values()]
        for row in access
    ]


def category_of(action: int) -> int:
    """By the table of the documentation, for all 145 actions."""
    for first in (15, 132):
        if first <= action < first + 13 and action - first != 8:
            host = s.HOST_NAMES[action - first]
            return next(c for c, hosts in enumerate(HOSTS_OF.values()) if host in hosts)
    return -1


@pytest.mark.parametrize("red", ["bline", "meander", "mixed"])
@pytest.mark.parametrize(("prob", "held"), [(1.0, 0), (0.4, 5)])
def test_kernels_note_what_the_true_state_says(red: Any, prob: float, held: int) -> None:
    env, task, out = bound(16, red=red, response_prob=prob, start_compromised=held)
    rng = np.random.default_rng(0)
    replaced, seen = 0, np.zeros(5, np.int64)
    assert task.open_mask().tolist() == open_by_truth(env, task)
    for _ in range(200):
        actions = rng.choice([0, 1, 3, *REMOVE, 50, *RESTORE], size=16)
        env.step_into(actions, out)
        opened = task.open_mask()
        assert opened.tolist() == open_by_truth(env, task)
        seen += opened.sum(axis=0)
        done = env.truth().blue_action
        # A new episode has no last action any more.
        here = np.flatnonzero(~out.truncated)
        assert all(done[i] in (0, actions[i]) for i in here)
        replaced += int((done[here] != actions[here]).sum())
        assert [task.addressed(actions)[i] for i in here] == [category_of(done[i]) for i in here]
    assert (seen[[1, 2, 4]] > 0).all()
    assert (seen[0] > 0) == (held > 0)
    assert (replaced > 0) == (prob < 1)


def test_the_last_step_of_an_episode_is_judged_by_its_own_action() -> None:
    env, task, out = bound(3, length=1)
    env.step_into(np.array([132, 23, 18]), out)
    assert out.truncated.all()
    assert task.addressed(np.zeros(3)).tolist() == [0, -1, 1]


@pytest.mark.parametrize("actions", ["full", "reduced"])
def test_the_reduced_actions_address_the_same_hosts(actions: Any) -> None:
    names = s.REDUCED_NAMES if actions == "reduced" else s.ACTION_NAMES
    env, task, out = bound(len(names), actions=actions)
    env.step_into(np.arange(len(names)), out)
    for name, category in zip(names, task.addressed(np.zeros(0)), strict=True):
        kind, _, host = name.partition(" ")
        fixes = kind in ("Remove", "Restore") and host != "User0"
        members = [c for c, hosts in enumerate(task.hosts.values()) if host in hosts]
        assert category == (members[0] if fixes else -1), name


def test_categories_that_no_action_repairs_are_left_out() -> None:
    full, reduced = (Cage2Task(Cage2Config(actions=kind)) for kind in ("full", "reduced"))
    assert full.categories == tuple(HOSTS_OF)
    assert reduced.categories == ("defender", "enterprise", "op_server", "user")
    space = WorkflowSpace(reduced.categories, named=reduced.named)
    assert str(space.parse("outside-in")) == "user>enterprise>op_server>defender"


def test_well_known_workflows_have_the_documented_ids() -> None:
    task = Cage2Task(Cage2Config())
    ids = {name: Workflow(task.categories, order).id for name, order in task.named.items()}
    assert ids == {
        "critical-first": 6,
        "enterprise-first": 24,
        "user-first": 96,
        "operations-first": 60,
        "balanced": 1,
        "outside-in": 117,
    }
    assert list(ids) == list(NAMED)


def test_a_task_of_other_environments_is_refused() -> None:
    with pytest.raises(ConfigError, match="not for str"):
        Cage2Task(Cage2Config()).bind("snake")


@pytest.mark.parametrize("prob", [0.0, 0.25, 0.9])
def test_responses_fail_with_the_given_probability(prob: float) -> None:
    env, _, out = bound(500, red="sleep", response_prob=prob, length=1000)
    acted = 0
    for _ in range(20):
        env.step_into(np.full(500, 1), out)
        acted += int((env.truth().blue_action == 1).sum())
    assert acted / 10_000 == pytest.approx(prob, abs=0.015)


@pytest.mark.parametrize("held", [0, 1, 4, 12])
def test_episodes_begin_with_compromised_hosts(held: int) -> None:
    env, _, out = bound(2000, red="sleep", start_compromised=held)
    truth = env.truth()
    access = np.delete(truth.access, s.HOST_NAMES.index("User0"), axis=1)
    assert (access.sum(axis=1) == held).all()
    np.testing.assert_allclose(access.mean(axis=0), held / 12, atol=0.04)
    np.testing.assert_array_equal(truth.access == 1, truth.sess_user_removable)
    assert not out.obs.any(), "blue sees nothing of it"


def test_a_compromised_host_can_be_removed_and_found() -> None:
    env, task, out = bound(1, red="sleep", start_compromised=12)
    fixes = {"Analyse Op_Server0": 12, "Remove Op_Server0": 11, "Restore User3": 10}
    for name, left in fixes.items():
        env.step_into(np.array([s.action_index(name)]), out)
        assert (env.truth().access == 1).sum() == left
    assert env.truth().compromise[0, s.HOST_NAMES.index("Op_Server0")] == 1
    assert task.open_mask().tolist() == [[True, True, False, True, True]]


def test_meander_escalates_on_the_hosts_that_it_holds_at_the_start() -> None:
    env, _, out = bound(200, red="meander", start_compromised=6, length=100)
    held = env.truth().access == 1
    for _ in range(12):
        env.step_into(np.zeros(200, np.int64), out)
    privileged = env.truth().access == 2
    assert (held & privileged).sum() > 100
    assert not (~held & privileged)[:, s.HOST_NAMES.index("Defender")].any()


@pytest.mark.parametrize(("field", "value"), [("response_prob", 1.5), ("start_compromised", 13)])
def test_impossible_options_are_refused(field: str, value: float) -> None:
    with pytest.raises(ConfigError, match=field):
        Cage2VecEnv(1, **{field: value})


def test_reduced_actions_limit_the_compromised_hosts() -> None:
    fits = Cage2Config(actions="reduced", start_compromised=8)
    assert fits.check() == []
    assert "at most" in replace(fits, start_compromised=12).check()[0]
    env, _, _ = bound(300, actions="reduced", start_compromised=8, red="sleep")
    held = env.truth().access[:, [s.HOST_NAMES.index(f"Op_Host{k}") for k in range(3)]]
    assert not held.any()


def test_tracking_changes_nothing_else() -> None:
    plain = Cage2VecEnv(8, length=40)
    out = StepBuffers.allocate(plain.env_spec, 8)
    plain.start(11, out)
    env, _, other = bound(8)
    rng = np.random.default_rng(1)
    for _ in range(100):
        actions = rng.integers(145, size=8)
        plain.step_into(actions, out)
        env.step_into(actions, other)
        np.testing.assert_array_equal(out.obs, other.obs)
        np.testing.assert_array_equal(out.reward, other.reward)
    np.testing.assert_array_equal(plain.get_state()["cage2"], env.get_state()["cage2"])
