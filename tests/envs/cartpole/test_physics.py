"""The compiled cart against Gymnasium's CartPole-v1 and against a plain reference, step by step.

All of them compute in float64. Sines and cosines of different libraries differ in the last bit, so
states are compared to a few units in the last place of float64 after one step, and to 1e-9 along
whole episodes; observations are float32 on both sides.
"""

from __future__ import annotations

import math
from typing import Any

import gymnasium
import numba
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from briskrl.core.types import StepBuffers
from briskrl.envs.cartpole.env import CartPoleVecEnv
from briskrl.envs.cartpole.kernels import step as kernels
from briskrl.envs.cartpole.players import heuristic_actions
from tests.envs.cartpole.reference import FALLEN, OFF_TRACK, STEP_LIMIT, Cart

NUM_ENVS = 64


def begun(num_envs: int = NUM_ENVS, **settings: Any) -> tuple[CartPoleVecEnv, StepBuffers]:
    env = CartPoleVecEnv(num_envs, **settings)
    out = StepBuffers.allocate(env.env_spec, num_envs)
    env.start(11, out)
    return env, out


def reference(states: np.ndarray) -> list[gymnasium.Env[Any, Any]]:
    """Gymnasium's own environments, put into these states."""
    envs = [gymnasium.make("CartPole-v1") for _ in states]
    for env, state in zip(envs, states, strict=True):
        env.reset(seed=0)
        env.unwrapped.state = state.copy()  # type: ignore[attr-defined]
    return envs


def mixed_actions(obs: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    """Half of the carts balance, so that some episodes last; the others push at random."""
    actions = heuristic_actions(obs)
    random = rng.integers(2, size=len(obs))
    return np.where(np.arange(len(obs)) % 2 == 0, actions, random)


@numba.njit
def both(angles, sines, cosines):
    for i in range(len(angles)):
        sines[i], cosines[i] = kernels.sin_cos(angles[i])


def test_sines_and_cosines_have_an_error_below_one_unit_in_the_last_place() -> None:
    angles = np.concatenate([np.linspace(-0.9, 0.9, 20_001), np.linspace(-40, 40, 1001), [0.0]])
    sines, cosines = np.empty_like(angles), np.empty_like(angles)
    both(angles, sines, cosines)
    wanted = np.array([(math.sin(a), math.cos(a)) for a in angles.tolist()])
    for got, exact in ((sines, wanted[:, 0]), (cosines, wanted[:, 1])):
        off = np.abs(got - exact) / np.spacing(np.abs(exact))
        assert off.max() <= 1
        assert (off == 0).mean() > 0.8


def test_one_step_from_any_state_equals_gymnasiums() -> None:
    """States injected on both sides; the same push gives the same state, reward and end."""
    rng = np.random.default_rng(0)
    num_envs = 2000
    spread = np.array([2.4, 3.0, 0.21, 3.5])
    states = rng.uniform(-spread, spread, size=(num_envs, 4))
    env, out = begun(num_envs, autoreset_mode="Disabled")
    theirs = gymnasium.make("CartPole-v1")
    theirs.reset(seed=0)
    inner: Any = theirs.unwrapped
    equal = np.zeros((2, num_envs), np.bool_)
    for action in (0, 1):
        env.set_states(states)
        env.step_into(np.full(num_envs, action), out)
        new = env.peek()["state"]
        for i in range(num_envs):
            theirs.reset()
            inner.state = states[i].copy()
            obs, reward, terminated, _, _ = theirs.step(action)
            # Subtraction may double the differences of sine and cosine.
            np.testing.assert_allclose(new[i], inner.state, rtol=1e-14, atol=1e-15)
            np.testing.assert_allclose(out.obs[i], obs, rtol=2e-7, atol=0)
            assert out.reward[i] == reward
            assert out.terminated[i] == terminated
            equal[action, i] = (new[i] == inner.state).all()
    assert equal.mean() > 0.99
    assert 0.05 < out.terminated.mean() < 0.95


def test_whole_episodes_equal_gymnasiums_up_to_the_step_limit() -> None:
    """Each start is injected into Gymnasium's environment, limit of 500 steps included."""
    env, out = begun()
    theirs = reference(env.peek()["state"])
    rng = np.random.default_rng(3)
    ends: list[tuple[bool, bool]] = []
    for _ in range(700):
        actions = mixed_actions(out.obs, rng)
        env.step_into(actions, out)
        now = env.peek()["state"]
        for i, other in enumerate(theirs):
            obs, reward, terminated, truncated, _ = other.step(int(actions[i]))
            # Gymnasium sets both flags when a pole falls in the very last step.
            truncated = truncated and not terminated
            assert (out.terminated[i], out.truncated[i]) == (terminated, truncated)
            assert out.reward[i] == reward
            ended = terminated or truncated
            seen = out.final_obs[i] if ended else out.obs[i]
            np.testing.assert_allclose(seen, obs, rtol=1e-6, atol=1e-9)
            if ended:
                ends.append((bool(terminated), bool(truncated)))
                other.reset()
                other.unwrapped.state = now[i].copy()  # type: ignore[attr-defined]
    assert ends.count((False, True)) >= 32
    assert ends.count((True, False)) > 200


@pytest.mark.parametrize("max_steps", [500, 40, 0])
def test_the_kernel_equals_the_reference_with_its_random_numbers(max_steps: int) -> None:
    num_envs = 16
    env, out = begun(num_envs, max_steps=max_steps)
    carts = [Cart(11 + i, max_steps) for i in range(num_envs)]
    rng = np.random.default_rng(1)
    causes: list[int] = []
    for _ in range(600):
        actions = mixed_actions(out.obs, rng)
        env.step_into(actions, out)
        for i, cart in enumerate(carts):
            cause = cart.step(int(actions[i]))
            assert out.terminated[i] == (cause in (OFF_TRACK, FALLEN))
            assert out.truncated[i] == (cause == STEP_LIMIT)
            if cause:
                np.testing.assert_allclose(out.final_obs[i], cart.observe(), rtol=1e-6, atol=1e-9)
                causes.append(cause)
                cart.begin()
            np.testing.assert_allclose(out.obs[i], cart.observe(), rtol=1e-6, atol=1e-9)
    stats = env.drain_stats()
    assert stats.cause.tolist() == causes
    assert (stats.returns == stats.steps).all()
    assert (stats.score == stats.steps).all()
    assert (stats.won == (stats.cause == STEP_LIMIT)).all()
    assert (STEP_LIMIT in causes) == (max_steps > 0)
    seen = env.peek()
    assert seen["steps"].tolist() == [cart.steps for cart in carts]
    assert seen["random_state"].tolist() == [cart.random_state for cart in carts]


def test_starts_are_spread_over_the_whole_range() -> None:
    env, out = begun(20_000)
    assert np.abs(out.obs).max() <= 0.05
    np.testing.assert_allclose(out.obs.mean(axis=0), 0, atol=1e-3)
    np.testing.assert_allclose(out.obs.std(axis=0), 0.1 / math.sqrt(12), rtol=0.02)
    assert np.abs(np.corrcoef(out.obs.T) - np.eye(4)).max() < 0.03
    env.close()


@given(
    place=st.sampled_from([kernels.X, kernels.ANGLE]),
    nudge=st.sampled_from([-1, 0, 1]),
    sign=st.sampled_from([-1.0, 1.0]),
)
def test_episodes_end_beyond_the_limits_and_not_on_them(
    place: int, nudge: int, sign: float
) -> None:
    limit = kernels.X_LIMIT if place == kernels.X else kernels.ANGLE_LIMIT
    state = np.zeros(4)
    # Without velocity, one step changes neither position nor angle.
    state[place - kernels.X] = sign * (limit + nudge * np.spacing(limit))
    env, out = begun(1, autoreset_mode="Disabled")
    env.set_states(state[None])
    env.step_into(np.array([1]), out)
    assert out.terminated[0] == (nudge == 1)
    if nudge == 1:
        cause = OFF_TRACK if place == kernels.X else FALLEN
        assert env.drain_stats().cause.tolist() == [cause]


def test_a_fall_in_the_last_step_terminates() -> None:
    env, out = begun(2, autoreset_mode="Disabled", max_steps=500)
    env.set_states([[0, 0, 0.2094, 1.0], [0, 0, 0, 0]], steps=[499, 499])
    env.step_into(np.array([1, 1]), out)
    assert out.terminated.tolist() == [True, False]
    assert out.truncated.tolist() == [False, True]
    assert env.drain_stats().won.tolist() == [False, True]


def test_the_heuristic_balances_every_pole() -> None:
    env, out = begun(256)
    for _ in range(500):
        env.step_into(heuristic_actions(out.obs), out)
    stats = env.drain_stats()
    assert stats.steps.tolist() == [500] * 256
    assert stats.won.all()
