"""Saving and restoring the state of environments, and detecting where that is impossible."""

from __future__ import annotations

import json
import random
from collections import deque
from typing import Any

import gymnasium
import numpy as np
import pytest

from briskrl.core.types import StepBuffers
from briskrl.envs.gym import snapshot
from briskrl.envs.gym.config import GymConfig
from briskrl.envs.gym.env_factory import EnvFactory
from briskrl.envs.gym.state_check import has_exact_state
from briskrl.envs.gym.sync import GymSyncEnv

PACKAGES = ("tests.envs.gym.toy_envs",)


def factory(member: str) -> EnvFactory:
    return EnvFactory(member, GymConfig(packages=PACKAGES))


@pytest.mark.parametrize(
    "member",
    [
        "CartPole-v1",
        "MountainCar-v0",
        "MountainCarContinuous-v0",
        "Acrobot-v1",
        "Pendulum-v1",
        "FrozenLake-v1",
        "Taxi-v4",
        "Blackjack-v1",
        "CliffWalking-v1",
        "brisktest/DictWorld-v0",
        "brisktest/SpeakingWorld-v0",
    ],
)
def test_well_known_environments_have_an_exact_state(member: str) -> None:
    assert has_exact_state(factory(member))


@pytest.mark.parametrize("member", ["brisktest/HiddenWorld-v0", "brisktest/GlobalWorld-v0"])
def test_environments_that_cannot_be_saved_have_no_exact_state(member: str) -> None:
    assert not factory(member).spec().exact_state


def test_a_slow_environment_is_not_checked(monkeypatch: pytest.MonkeyPatch) -> None:
    from briskrl.envs.gym import state_check

    monkeypatch.setattr(state_check, "SLOW_S", 0.0)
    monkeypatch.setattr(state_check, "_checked", {})
    assert not has_exact_state(factory("CartPole-v1"))


class Anything(gymnasium.Env[Any, Any]):
    observation_space = gymnasium.spaces.Discrete(2)
    action_space = gymnasium.spaces.Discrete(2)


def test_all_supported_types_are_restored_exactly() -> None:
    one, other = Anything(), Anything()
    shared = np.arange(6.0).reshape(2, 3)
    one.__dict__ |= {
        "none": None,
        "flag": True,
        "whole": 2**80,
        "real": 0.1 + 0.2,
        "odd": [float("inf"), float("nan"), -0.0],
        "text": "ä\n",
        "raw": b"\x00\xff",
        "array": shared,
        "again": shared,
        "scalar": np.float32(1.1),
        "empty": np.zeros((0, 3), np.int8),
        "bits": np.array([True, False]),
        "nested": {"a": (1, [2, {3: {4}}]), 5: deque([1, 2], maxlen=2)},
        "generator": np.random.default_rng(3),
        "mersenne": np.random.Generator(np.random.MT19937(3)),
        "legacy": np.random.RandomState(3),
        "python": random.Random(3),
    }
    other.__dict__ |= {"left": 1, "array": np.zeros(1)}
    text = snapshot.to_text(snapshot.take(one))
    snapshot.restore(other, json.loads(text))
    assert snapshot.to_text(snapshot.take(other)) == text
    held: Any = vars(other)
    assert "left" not in held
    assert held["array"] is held["again"]
    assert held["array"] is not shared
    assert type(held["scalar"]) is np.float32
    assert held["nested"][5].maxlen == 2
    for name in ("generator", "mersenne"):
        assert held[name].random() == vars(one)[name].random()
    assert held["legacy"].normal() == vars(one)["legacy"].normal()
    assert held["python"].random() == vars(one)["python"].random()


@pytest.mark.parametrize(
    "value", [object(), [object()], np.array([None]), iter(()), np.ma.zeros(3), {"a": {"b": open}}]
)
def test_other_types_are_not_saved(value: Any) -> None:
    env = Anything()
    env.value = value  # type: ignore[attr-defined]
    assert snapshot.take(env) is None


def test_wrappers_are_saved_with_the_environment() -> None:
    from gymnasium.wrappers import FrameStackObservation, TimeLimit

    def make() -> gymnasium.Env[Any, Any]:
        made = gymnasium.make("CartPole-v1", disable_env_checker=True)
        return FrameStackObservation(TimeLimit(made.unwrapped, 9), 3)

    one, other = make(), make()
    one.reset(seed=5)
    for _ in range(4):
        one.step(1)
    state = json.loads(snapshot.to_text(snapshot.take(one)))
    other.reset(seed=6)
    snapshot.restore(other, state)
    for action in (0, 1, 0, 0, 1):
        left, right = one.step(action), other.step(action)
        np.testing.assert_array_equal(left[0], right[0])
        assert left[1:4] == right[1:4]
    assert left[3]


def test_the_generator_of_a_space_is_restored() -> None:
    env, other = factory("brisktest/World-v0").make(), factory("brisktest/World-v0").make()
    for made in (env, other):
        made.action_space = gymnasium.spaces.Discrete(1000)
        made.reset(seed=1)
    env.action_space.seed(4)
    env.action_space.sample()
    snapshot.restore(other, json.loads(snapshot.to_text(snapshot.take(env))))
    assert [env.action_space.sample() for _ in range(9)] == [
        other.action_space.sample() for _ in range(9)
    ]


def test_without_an_exact_state_new_episodes_begin() -> None:
    made = factory("brisktest/HiddenWorld-v0")
    spec = made.spec()
    env = GymSyncEnv(made, 3, spec)
    out = StepBuffers.allocate(spec, 3)
    env.start(0, out)
    first = out.obs.copy()
    for _ in range(4):
        env.step_into(np.zeros(3, np.int64), out)
    state = env.get_state()
    env.set_state(state)
    env.observe_into(out)
    assert not np.array_equal(out.obs[:, 0], first[:, 0])
    env.drain_stats()
    for _ in range(25):
        env.step_into(np.zeros(3, np.int64), out)
    stats = env.drain_stats()
    assert stats.steps[stats.env == 0][0] <= 20
