"""EnvGroup: the semantics of Gymnasium, and clear errors."""

from __future__ import annotations

import pickle
from typing import Any

import gymnasium
import numpy as np
import pytest

from briskrl.core.errors import EnvStepError, EnvWorkerError
from briskrl.core.types import StepBuffers
from briskrl.envs.gym.config import GymConfig
from briskrl.envs.gym.env_factory import EnvFactory
from briskrl.envs.gym.env_group import EnvGroup
from briskrl.envs.gym.episode_records import EpisodeRows

PACKAGES = ("tests.envs.gym.toy_envs",)


def factory(member: str, **settings: Any) -> EnvFactory:
    return EnvFactory(member, GymConfig(packages=PACKAGES, **settings))


def started_group(made: EnvFactory, count: int, **options: Any) -> EnvGroup:
    spec = made.spec()
    rows = EpisodeRows.allocate(count)
    group = EnvGroup(made, 0, StepBuffers.allocate(spec, count), rows, **options)
    group.start(11)
    return group


@pytest.mark.parametrize("member", ["CartPole-v1", "MountainCar-v0", "Pendulum-v1", "Acrobot-v1"])
@pytest.mark.parametrize("limit", [None, 25])
def test_episodes_equal_those_of_gymnasium(member: str, limit: int | None) -> None:
    made = factory(member, max_steps=limit)
    group = started_group(made, 1)
    env = gymnasium.make(member, **({} if limit is None else {"max_episode_steps": limit}))
    obs, _ = env.reset(seed=11)
    env.action_space.seed(0)
    returns, steps, episodes = 0.0, 0, 0
    for _ in range(1100):
        np.testing.assert_array_equal(group.buffers.obs[0], obs)
        action = env.action_space.sample()
        group.step(0, action)
        obs, reward, terminated, truncated, _ = env.step(action)
        returns, steps = returns + float(reward), steps + 1
        assert group.buffers.reward[0] == np.float32(reward)
        assert group.buffers.terminated[0] == terminated
        assert group.buffers.truncated[0] == (truncated and not terminated)
        if terminated or truncated:
            np.testing.assert_array_equal(group.buffers.final_obs[0], obs)
            assert group.episode.steps[0] == steps
            assert group.episode.returns[0] == pytest.approx(returns)
            obs, _ = env.reset()
            returns, steps, episodes = 0.0, 0, episodes + 1
    assert episodes >= 2


def test_the_unwrapped_environment_is_stepped() -> None:
    """Gymnasium's checking wrappers cost as much as the step of a cheap environment."""
    env = factory("CartPole-v1").make()
    assert env is env.unwrapped


def test_a_time_limit_below_registered_wrappers_is_kept() -> None:
    from gymnasium.wrappers import TimeAwareObservation

    inner = gymnasium.spec("CartPole-v1")
    wrapped = TimeAwareObservation(gymnasium.make("CartPole-v1", max_episode_steps=7))
    spec = wrapped.spec
    assert spec is not None
    name = "brisktest/Timed-v0"
    if name not in gymnasium.registry:
        gymnasium.register(
            name,
            entry_point=inner.entry_point,
            max_episode_steps=7,
            additional_wrappers=spec.additional_wrappers,
        )
    made = EnvFactory(name)
    assert made.max_steps is None
    assert made.spec().max_steps == 7
    group = started_group(made, 1)
    for _ in range(7):
        assert not group.buffers.truncated[0]
        group.step(0, np.int64(0 if group.buffers.obs[0, 2] < 0 else 1))
    assert group.buffers.truncated[0]
    assert group.episode.steps[0] == 7


@pytest.mark.parametrize(
    ("fault", "message"),
    [
        ("raise", "raised in step: RuntimeError: the dragon escaped"),
        ("nan", "observation that is not finite"),
        ("inf", "observation that is not finite"),
        ("shape", r"shape \(3,\) instead of \(2,\)"),
        ("scalar", r"shape \(\) instead of \(2,\)"),
        ("reward", "the reward nan"),
        ("text", r"returned reward = 'much' \(str\), which is not a number"),
    ],
)
@pytest.mark.parametrize("all_at_once", [False, True], ids=["step", "step_all"])
def test_errors_name_the_environment_and_the_cause(
    fault: str, message: str, all_at_once: bool
) -> None:
    made = factory("brisktest/FaultyWorld-v0", env_args={"fault": fault})
    group = started_group(made, 3)
    group.first = 40
    for _ in range(4):
        group.step_all(np.zeros(3, np.int64))
    wrong = (group.step_all, np.zeros(3, np.int64)) if all_at_once else (group.step, 1, np.int64(0))
    call, *arguments = wrong
    with np.errstate(invalid="ignore"), pytest.raises(EnvStepError, match=message) as caught:
        call(*arguments)
    assert caught.value.index == (40 if all_at_once else 41)
    assert f"Environment {caught.value.index} (gym:brisktest/FaultyWorld-v0)" in str(caught.value)


def test_a_replaced_environment_begins_a_new_episode() -> None:
    group = started_group(factory("brisktest/FaultyWorld-v0"), 2)
    for _ in range(4):
        group.step_all(np.zeros(2, np.int64))
    assert group.running(0)[1] == 4
    old = group.envs[0]
    group.replace_env(0, seed=11)
    assert group.envs[0] is not old
    assert group.running(0) == (0.0, 0)
    for _ in range(4):
        group.step(0, np.int64(0))
    assert group.running(0)[1] == 4


def test_errors_and_factories_can_be_pickled() -> None:
    error = pickle.loads(pickle.dumps(EnvStepError("failed", 3)))
    assert (str(error), error.index) == ("failed", 3)
    worker = pickle.loads(pickle.dumps(EnvWorkerError("failed", (1, 2))))
    assert (str(worker), worker.indices) == ("failed", (1, 2))
    made = factory("CartPole-v1", max_steps=3)
    assert pickle.loads(pickle.dumps(made)) == made


def test_held_episodes_keep_their_last_observation() -> None:
    group = started_group(factory("brisktest/World-v0", max_steps=3), 1, hold_ended=True)
    for _ in range(3):
        group.step(0, np.int64(1))
    ended = group.buffers.terminated[0] | group.buffers.truncated[0]
    assert ended
    last = group.buffers.obs.copy()
    np.testing.assert_array_equal(last, group.buffers.final_obs)
    group.step(0, np.int64(1))
    np.testing.assert_array_equal(group.buffers.obs, last)
    assert group.buffers.reward[0] == 0
    group.start(12)
    assert not np.array_equal(group.buffers.obs, last)


@pytest.mark.parametrize("member", ["brisktest/MaskInfoWorld-v0", "brisktest/MaskMethodWorld-v0"])
def test_masks_are_written_for_the_ended_and_the_new_episode(member: str) -> None:
    made = factory(member, max_steps=3)
    assert made.spec().has_mask
    group = started_group(made, 1)
    assert group.buffers.mask is not None
    assert group.buffers.final_mask is not None
    seen = []
    for _ in range(12):
        length = group.running(0)[1]
        np.testing.assert_array_equal(group.buffers.mask[0], [True, length % 2 == 0, False])
        group.step(0, np.int64(0))
        if group.buffers.truncated[0]:
            np.testing.assert_array_equal(group.buffers.final_mask[0], [True, False, False])
            seen.append(length)
    assert seen


def test_success_is_recorded_with_the_episode() -> None:
    group = started_group(factory("brisktest/World-v0", max_steps=2), 1)
    info = {"is_success": np.True_}
    group.envs[0].info = lambda: info  # type: ignore[attr-defined]
    group.step(0, np.int64(0))
    group.step(0, np.int64(0))
    assert group.episode.won[0]
    info = {}
    group.step(0, np.int64(0))
    group.step(0, np.int64(0))
    assert not group.episode.won[0]
