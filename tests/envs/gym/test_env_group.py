"""One environment at a time: Gymnasium's own semantics, and clear refusals."""

from __future__ import annotations

import pickle
from typing import Any

import gymnasium
import numpy as np
import pytest

from briskrl.core.errors import EnvStepError, EnvWorkerError
from briskrl.core.types import StepBuffers
from briskrl.envs.gym.config import GymConfig
from briskrl.envs.gym.env_factory import EnvRecipe
from briskrl.envs.gym.env_group import EpisodeRows, Host

PACKAGES = ("tests.envs.gym.toy_envs",)


def recipe(member: str, **settings: Any) -> EnvRecipe:
    return EnvRecipe(member, GymConfig(packages=PACKAGES, **settings))


def hosted(made: EnvRecipe, count: int, **options: Any) -> Host:
    spec = made.spec()
    rows = EpisodeRows.allocate(count)
    host = Host(made, 0, StepBuffers.allocate(spec, count), rows, **options)
    host.start(11)
    return host


@pytest.mark.parametrize("member", ["CartPole-v1", "MountainCar-v0", "Pendulum-v1", "Acrobot-v1"])
@pytest.mark.parametrize("limit", [None, 25])
def test_an_episode_is_what_gymnasium_would_show(member: str, limit: int | None) -> None:
    made = recipe(member, max_steps=limit)
    host = hosted(made, 1)
    env = gymnasium.make(member, **({} if limit is None else {"max_episode_steps": limit}))
    obs, _ = env.reset(seed=11)
    env.action_space.seed(0)
    returns, steps, episodes = 0.0, 0, 0
    for _ in range(1100):
        np.testing.assert_array_equal(host.buffers.obs[0], obs)
        action = env.action_space.sample()
        host.step(0, action)
        obs, reward, terminated, truncated, _ = env.step(action)
        returns, steps = returns + float(reward), steps + 1
        assert host.buffers.reward[0] == np.float32(reward)
        assert host.buffers.terminated[0] == terminated
        assert host.buffers.truncated[0] == (truncated and not terminated)
        if terminated or truncated:
            np.testing.assert_array_equal(host.buffers.final_obs[0], obs)
            assert host.episode.steps[0] == steps
            assert host.episode.returns[0] == pytest.approx(returns)
            obs, _ = env.reset()
            returns, steps, episodes = 0.0, 0, episodes + 1
    assert episodes >= 2


def test_the_raw_environment_is_stepped() -> None:
    """Gymnasium's checking wrappers would cost as much as a cheap environment's own step."""
    env = recipe("CartPole-v1").make()
    assert env is env.unwrapped


def test_a_limit_under_registered_wrappers_stays_there() -> None:
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
    made = EnvRecipe(name)
    assert made.max_steps is None
    assert made.spec().max_steps == 7
    host = hosted(made, 1)
    for _ in range(7):
        assert not host.buffers.truncated[0]
        host.step(0, np.int64(0 if host.buffers.obs[0, 2] < 0 else 1))
    assert host.buffers.truncated[0]
    assert host.episode.steps[0] == 7


@pytest.mark.parametrize(
    ("fault", "told"),
    [
        ("raise", "raised in step: RuntimeError: the dragon escaped"),
        ("nan", "observation that is not finite"),
        ("inf", "observation that is not finite"),
        ("shape", r"shape \(3,\) instead of \(2,\)"),
        ("scalar", r"shape \(\) instead of \(2,\)"),
        ("reward", "the reward nan"),
        ("text", "could not convert string to float"),
    ],
)
@pytest.mark.parametrize("at_once", [False, True], ids=["step", "step_all"])
def test_a_fault_names_the_environment_and_the_cause(fault: str, told: str, at_once: bool) -> None:
    made = recipe("brisktest/FaultyWorld-v0", env_args={"fault": fault})
    host = hosted(made, 3)
    host.first = 40
    for _ in range(4):
        host.step_all(np.zeros(3, np.int64))
    wrong = (host.step_all, np.zeros(3, np.int64)) if at_once else (host.step, 1, np.int64(0))
    call, *words = wrong
    with np.errstate(invalid="ignore"), pytest.raises(EnvStepError, match=told) as caught:
        call(*words)
    assert caught.value.index == (40 if at_once else 41)
    assert f"Environment {caught.value.index} (gym:brisktest/FaultyWorld-v0)" in str(caught.value)


def test_a_revived_environment_goes_on() -> None:
    host = hosted(recipe("brisktest/FaultyWorld-v0"), 2)
    for _ in range(4):
        host.step_all(np.zeros(2, np.int64))
    assert host.running(0)[1] == 4
    old = host.envs[0]
    host.revive(0, seed=11)
    assert host.envs[0] is not old
    assert host.running(0) == (0.0, 0)
    for _ in range(4):
        host.step(0, np.int64(0))
    assert host.running(0)[1] == 4


def test_errors_survive_the_way_between_processes() -> None:
    error = pickle.loads(pickle.dumps(EnvStepError("told", 3)))
    assert (str(error), error.index) == ("told", 3)
    worker = pickle.loads(pickle.dumps(EnvWorkerError("told", (1, 2))))
    assert (str(worker), worker.indices) == ("told", (1, 2))
    made = recipe("CartPole-v1", max_steps=3)
    assert pickle.loads(pickle.dumps(made)) == made


def test_held_episodes_stay_as_they_ended() -> None:
    host = hosted(recipe("brisktest/World-v0", max_steps=3), 1, hold_ended=True)
    for _ in range(3):
        host.step(0, np.int64(1))
    ended = host.buffers.terminated[0] | host.buffers.truncated[0]
    assert ended
    last = host.buffers.obs.copy()
    np.testing.assert_array_equal(last, host.buffers.final_obs)
    host.step(0, np.int64(1))
    np.testing.assert_array_equal(host.buffers.obs, last)
    assert host.buffers.reward[0] == 0
    host.start(12)
    assert not np.array_equal(host.buffers.obs, last)


@pytest.mark.parametrize("member", ["brisktest/MaskInfoWorld-v0", "brisktest/MaskMethodWorld-v0"])
def test_legal_actions_are_told_for_both_episodes(member: str) -> None:
    made = recipe(member, max_steps=3)
    assert made.spec().has_mask
    host = hosted(made, 1)
    assert host.buffers.mask is not None
    assert host.buffers.final_mask is not None
    seen = []
    for _ in range(12):
        length = host.running(0)[1]
        np.testing.assert_array_equal(host.buffers.mask[0], [True, length % 2 == 0, False])
        host.step(0, np.int64(0))
        if host.buffers.truncated[0]:
            np.testing.assert_array_equal(host.buffers.final_mask[0], [True, False, False])
            seen.append(length)
    assert seen


def test_success_is_told_with_the_episode() -> None:
    host = hosted(recipe("brisktest/World-v0", max_steps=2), 1)
    tell = {"is_success": np.True_}
    host.envs[0].tell = lambda: tell  # type: ignore[attr-defined]
    host.step(0, np.int64(0))
    host.step(0, np.int64(0))
    assert host.episode.won[0]
    tell = {}
    host.step(0, np.int64(0))
    host.step(0, np.int64(0))
    assert not host.episode.won[0]
