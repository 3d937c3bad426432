"""CartPole through Gymnasium: checkers, ids, spaces, rendering and errors."""

from __future__ import annotations

import warnings

import gymnasium
import numpy as np
import pytest
from gymnasium.utils.env_checker import check_env

from briskrl.core.errors import ConfigError
from briskrl.envs.cartpole import render
from briskrl.envs.cartpole.env import CartPoleEnv, CartPoleVecEnv

CARTPOLE_ID = "briskrl/CartPole-v1"


def test_gymnasium_checker_accepts_the_single_cart() -> None:
    """Without warnings, except that velocities have no bounds, as in Gymnasium's CartPole."""
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        warnings.filterwarnings("ignore", message=".*infinity")
        check_env(CartPoleEnv(), skip_render_check=True)


@pytest.mark.parametrize("render_mode", ["ansi", "rgb_array"])
def test_gymnasium_checker_accepts_every_render_mode(render_mode: str) -> None:
    env = gymnasium.make(CARTPOLE_ID, render_mode=render_mode)
    check_env(env.unwrapped)
    env.close()


def test_ids_make_the_native_classes_with_gymnasiums_spaces() -> None:
    env, theirs = gymnasium.make(CARTPOLE_ID), gymnasium.make("CartPole-v1")
    assert isinstance(env.unwrapped, CartPoleEnv)
    assert env.observation_space == theirs.observation_space
    assert env.action_space == theirs.action_space
    obs, _ = env.reset(seed=1)
    vector = gymnasium.make_vec(CARTPOLE_ID, num_envs=3, vectorization_mode="vector_entry_point")
    assert isinstance(vector.unwrapped, CartPoleVecEnv)
    rows, _ = vector.reset(seed=1)
    np.testing.assert_array_equal(rows[0], obs)
    assert vector.observation_space.contains(rows)
    *_, infos = vector.step(vector.action_space.sample())
    assert infos == {}
    vector.close()


def test_a_single_cart_plays_to_the_end_and_reports_its_record() -> None:
    env = CartPoleEnv(max_steps=30)
    env.reset(seed=2)
    steps, terminated, truncated = 0, False, False
    while not (terminated or truncated):
        _, reward, terminated, truncated, info = env.step(1)
        assert reward == 1.0
        steps += 1
    assert terminated
    assert info["episode_steps"] == info["return"] == steps
    with pytest.raises(gymnasium.error.ResetNeeded):
        env.step(1)
    env.close()


def test_images_show_cart_and_pole_where_they_are() -> None:
    pole = [
        np.flatnonzero((render.rgb(0.0, angle) == render.POLE).all(axis=2).any(axis=0))
        for angle in (-0.2, 0.0, 0.2)
    ]
    assert pole[0].mean() < pole[1].mean() < pole[2].mean()
    carts = [
        np.flatnonzero((render.rgb(x, 0.0) == render.CART).all(axis=2).any(axis=0)).mean()
        for x in (-1.0, 0.0, 1.0)
    ]
    np.testing.assert_allclose(np.diff(carts), 80, atol=1)
    assert render.rgb(0.0, 0.0, 4).shape == (19 * 4, 54 * 4, 3)


@pytest.mark.parametrize("x", [-9.0, -2.41, 0.0, 2.41, 9.0])
def test_text_keeps_its_frame_for_any_cart_position(x: float) -> None:
    lines = render.ansi(x, 0.2, 7).splitlines()
    assert {len(line) for line in lines[:-1]} == {51}
    assert "=" in lines[6]
    assert "/" in lines[1]
    assert lines[-1].endswith("steps 7")


def test_invalid_settings_are_refused() -> None:
    with pytest.raises(ConfigError, match="max_steps"):
        CartPoleVecEnv(2, max_steps=-1)
    with pytest.raises(ValueError, match="ansi, rgb_array or None"):
        CartPoleVecEnv(2, render_mode="human")


def test_a_state_of_another_batch_is_refused() -> None:
    env, other = CartPoleVecEnv(2), CartPoleVecEnv(3)
    other.reset(seed=0)
    with pytest.raises(ValueError, match=r"cartpole is uint64 \(3, 8\)"):
        env.set_state(other.get_state())
