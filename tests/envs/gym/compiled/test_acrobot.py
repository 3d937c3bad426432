"""The compiled Acrobot is bit-identical to Gymnasium's own and to the sync backend."""

from __future__ import annotations

from contextlib import closing
from typing import Any

import gymnasium
import numba
import numpy as np
import pytest
from gymnasium.envs.classic_control.acrobot import AcrobotEnv

from briskrl.core.types import Array, StepBuffers
from briskrl.envs.gym.backend_selection import choose
from briskrl.envs.gym.compiled.acrobot import ACROBOT
from briskrl.envs.gym.compiled.env import GymCompiledEnv
from briskrl.envs.gym.compiled.kernels.acrobot import START, start_sin_cos
from briskrl.envs.gym.compiled.registry import find_compiled
from briskrl.envs.gym.config import GymConfig
from briskrl.envs.gym.env_factory import EnvFactory
from briskrl.envs.gym.sync import GymSyncEnv
from tests.envs.recording import assert_same, assert_same_rows, play, random_actions, record

PLAIN = EnvFactory("Acrobot-v1")


def compiled(factory: EnvFactory, num_envs: int, **options: Any) -> GymCompiledEnv:
    return GymCompiledEnv(factory, num_envs, factory.spec(), ACROBOT, **options)


def swing_up(obs: Array) -> Array:
    """Torque against the second link's motion relative to the first, which adds energy."""
    return np.where(obs[:, 4] > 0, 0, 2)


def test_whole_episodes_are_bit_identical_to_gymnasium() -> None:
    """Against Gymnasium's whole environment with its own time limit, reset by hand."""
    num_envs, rng = 6, np.random.default_rng(0)
    theirs = [gymnasium.make("Acrobot-v1") for _ in range(num_envs)]
    with closing(compiled(PLAIN, num_envs)) as ours:
        out = StepBuffers.allocate(ours.env_spec, num_envs)
        ours.start(40, out)
        first = [env.reset(seed=40 + i)[0] for i, env in enumerate(theirs)]
        np.testing.assert_array_equal(out.obs, first)
        ends = np.zeros(2, int)
        for _ in range(700):
            actions = rng.integers(3, size=num_envs)
            actions[::2] = swing_up(out.obs)[::2]
            ours.step_into(actions, out)
            results = [env.step(action)[:4] for env, action in zip(theirs, actions, strict=True)]
            obs, reward, terminated, truncated = map(np.stack, zip(*results, strict=True))
            ended = terminated | truncated
            ends += [terminated.sum(), truncated.sum()]
            np.testing.assert_array_equal(out.final_obs[ended], obs[ended])
            for i in np.flatnonzero(ended):
                obs[i], _ = theirs[i].reset()
            np.testing.assert_array_equal(out.obs, obs)
            np.testing.assert_array_equal(out.reward, reward)
            np.testing.assert_array_equal(out.terminated, terminated)
            np.testing.assert_array_equal(out.truncated, truncated & ~terminated)
    assert ends.min() > 0


@pytest.mark.parametrize("max_steps", [None, 1, 17])
def test_time_limits_and_saved_states_equal_the_sync_backend(max_steps: int | None) -> None:
    factory = EnvFactory("Acrobot-v1", GymConfig(max_steps=max_steps))
    spec = factory.spec()
    actions = random_actions(spec, 60, 5)
    with closing(compiled(factory, 5)) as ours, closing(GymSyncEnv(factory, 5, spec)) as theirs:
        assert_same(play(ours, actions), play(theirs, actions))
        assert_same_rows(dict(ours.get_state()), dict(theirs.get_state()))


@pytest.mark.parametrize("steps", [0, 9])
def test_a_state_can_move_between_backends(steps: int) -> None:
    """At the start of an episode, too, when Gymnasium holds its state in float32."""
    spec = PLAIN.spec()
    actions = random_actions(spec, 30, 3)
    with closing(compiled(PLAIN, 3)) as ours, closing(GymSyncEnv(PLAIN, 3, spec)) as sync:
        out, other = (StepBuffers.allocate(spec, 3) for _ in range(2))
        sync.start(8, out)
        record(sync, actions[:steps], out)
        state = sync.get_state()
        ours.set_state(state)
        assert_same_rows(dict(ours.get_state()), dict(state))
        assert_same_rows(record(ours, actions, other), record(sync, actions, out))
        sync.set_state(ours.get_state())
        assert_same_rows(record(ours, actions, other), record(sync, actions, out))


@pytest.mark.parametrize(("name", "value"), [("dt", 0.1), ("book_or_nips", "nips")])
def test_other_constants_of_the_class_are_detected(
    monkeypatch: pytest.MonkeyPatch, name: str, value: Any
) -> None:
    assert find_compiled(PLAIN).version is ACROBOT
    monkeypatch.setattr(AcrobotEnv, name, value)
    assert "is not equal" in find_compiled(PLAIN).reason
    backend, note = choose(PLAIN, 8)
    assert backend != "compiled"
    assert "The compiled version of gym:Acrobot-v1 is not used" in note


@numba.njit
def start_sines(angles: Array, sines: Array, cosines: Array) -> None:
    for i in range(len(angles)):
        sines[i], cosines[i] = start_sin_cos(angles[i])


def test_sines_of_starts_are_bit_identical_to_numpy() -> None:
    angles = np.random.default_rng(3).uniform(-START, START, 100_000).astype(np.float32)
    sines, cosines = np.empty_like(angles), np.empty_like(angles)
    start_sines(angles, sines, cosines)
    np.testing.assert_array_equal(sines, np.sin(angles))
    np.testing.assert_array_equal(cosines, np.cos(angles))
