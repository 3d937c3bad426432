"""An environment that differs from Gymnasium's CartPole in any bit uses another backend."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import gymnasium
import numpy as np
import pytest
from gymnasium.envs.classic_control.cartpole import CartPoleEnv
from gymnasium.envs.registration import WrapperSpec
from gymnasium.wrappers import TransformReward

from briskrl.core.errors import ConfigError
from briskrl.envs.gym.backend_selection import choose
from briskrl.envs.gym.compiled.registry import find_compiled
from briskrl.envs.gym.config import GymConfig
from briskrl.envs.gym.env_factory import EnvFactory
from briskrl.envs.make import make_env

COMPILED = GymConfig(backend="compiled")
PLAIN = EnvFactory("CartPole-v1")


class OtherCartPole(CartPoleEnv):
    """A class with another name."""


def light_cartpole(**arguments: Any) -> CartPoleEnv:
    env = CartPoleEnv(**arguments)
    env.gravity = 1.62
    return env


@pytest.fixture
def table() -> Iterator[dict[str, Any]]:
    """Gymnasium's registry, restored afterwards."""
    before = dict(gymnasium.registry)
    yield gymnasium.registry
    gymnasium.registry.clear()
    gymnasium.registry.update(before)


def register(**settings: Any) -> None:
    gymnasium.registry.pop("CartPole-v1", None)
    gymnasium.register("CartPole-v1", max_episode_steps=500, **settings)


@pytest.mark.parametrize("member", ["CartPole-v1", "CartPole-v0"])
def test_auto_uses_the_compiled_version_and_notes_why(member: str) -> None:
    env: Any = make_env(f"gym:{member}", 4)
    (note,) = env.notes
    assert type(env).__name__ == "GymCompiledEnv"
    assert "bit-identical in 4,096 steps" in note
    assert note.endswith("so compiled.")
    env.close()


def test_the_compiled_backend_leaves_no_note() -> None:
    env: Any = make_env("gym:CartPole-v1", 1500, config=COMPILED, threads=2)
    assert type(env).__name__ == "GymCompiledEnv"
    assert env.notes == []
    env.close()


def test_the_compiled_backend_is_an_error_without_a_compiled_version() -> None:
    with pytest.raises(ConfigError, match=r"MountainCar-v0 has no compiled .* none exists"):
        make_env("gym:MountainCar-v0", 2, config=COMPILED)


def assert_not_used(why: str) -> None:
    """Auto falls back with a note, and the compiled backend is an error with the same reason."""
    found = find_compiled(PLAIN)
    assert found.version is None
    assert why in found.reason
    backend, note = choose(PLAIN, 8)
    assert backend == "sync"
    assert f"The compiled version of gym:CartPole-v1 is not used: {found.reason}. " in note
    assert note.endswith("so sync.")
    with pytest.raises(ConfigError, match="no compiled version that may be used") as error:
        make_env("gym:CartPole-v1", 2, config=COMPILED)
    assert why in str(error.value)


def test_a_registered_wrapper_is_detected(table: dict[str, Any]) -> None:
    half = {"func": lambda reward: reward / 2}
    wrapper = WrapperSpec("TransformReward", "gymnasium.wrappers:TransformReward", half)
    register(entry_point=CartPoleEnv, additional_wrappers=(wrapper,))
    assert isinstance(PLAIN.make(), TransformReward)
    assert_not_used("wrapped in TransformReward")


def test_the_same_class_under_another_id_and_limit_is_compiled(table: dict[str, Any]) -> None:
    gymnasium.register("Mine-v0", CartPoleEnv, max_episode_steps=33, kwargs={})
    env: Any = make_env("gym:Mine-v0", 2, config=COMPILED)
    assert env.env_spec.max_steps == 33
    env.close()


@pytest.mark.parametrize("maker", [OtherCartPole, light_cartpole])
def test_another_class_or_function_under_the_id_is_not_compiled(
    table: dict[str, Any], maker: Any
) -> None:
    register(entry_point=maker)
    assert find_compiled(PLAIN).version is None
    backend, note = choose(PLAIN, 8)
    assert backend == "sync"
    assert "compiled" not in note


def test_an_entry_point_that_makes_another_class_is_detected(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(
        "gymnasium.envs.classic_control.cartpole.CartPoleEnv", OtherCartPole, raising=True
    )
    assert_not_used("OtherCartPole")


def patched(monkeypatch: pytest.MonkeyPatch, name: str, change: Any) -> None:
    original = getattr(CartPoleEnv, name)

    def changed(self: Any, *arguments: Any, **named: Any) -> Any:
        return change(self, original(self, *arguments, **named))

    monkeypatch.setattr(CartPoleEnv, name, changed)


@pytest.mark.parametrize(
    ("attribute", "value"),
    [
        ("gravity", np.nextafter(9.8, 10)),
        ("kinematics_integrator", "semi-implicit"),
        ("x_threshold", 2.3),
        ("theta_threshold_radians", 0.21),
    ],
)
def test_other_physics_of_the_same_class_are_detected(
    monkeypatch: pytest.MonkeyPatch, attribute: str, value: Any
) -> None:
    patched(monkeypatch, "__init__", lambda self, _: setattr(self, attribute, value))
    assert_not_used("is not equal")


def test_an_extra_random_number_in_reset_is_detected(monkeypatch: pytest.MonkeyPatch) -> None:
    def draw(self: Any, result: Any) -> Any:
        self.np_random.random()
        return result

    patched(monkeypatch, "reset", draw)
    assert_not_used("obs in step")


def test_another_reward_is_detected(monkeypatch: pytest.MonkeyPatch) -> None:
    def pay_for_falling(self: Any, result: Any) -> Any:
        obs, _, terminated, truncated, info = result
        return obs, 2.0 if terminated else 1.0, terminated, truncated, info

    patched(monkeypatch, "step", pay_for_falling)
    assert_not_used("reward in step")
    monkeypatch.undo()
    assert find_compiled(PLAIN).version is not None


def test_an_error_in_rare_states_is_detected(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def fail(self: Any, result: Any) -> Any:
        if self.state[0] > 2.0:
            raise RuntimeError("off the rails")
        return result

    patched(monkeypatch, "step", fail)
    assert_not_used("RuntimeError: off the rails")


def test_unknown_arguments_raise_gymnasiums_error() -> None:
    with pytest.raises(ConfigError, match="unexpected keyword argument 'gravity'"):
        make_env("gym:CartPole-v1", 2, config=GymConfig(env_args={"gravity": 1}))
