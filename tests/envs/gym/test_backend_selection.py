"""The choice of the backend by measured costs, and the note about it."""

from __future__ import annotations

import importlib.util
import time
from typing import Any

import numpy as np
import pytest

from briskrl.core.cpu import usable_cores
from briskrl.core.errors import ConfigError
from briskrl.envs.gym.backend_selection import (
    Costs,
    WorkerCounts,
    choose,
    decide,
    measure,
)
from briskrl.envs.gym.config import GymConfig
from briskrl.envs.gym.env_factory import EnvFactory
from briskrl.envs.make import make_env
from briskrl.envs.registry import ENVS

EVEN = np.full(100, 2e-3)
UNEVEN = np.where(np.arange(100) % 10 == 0, 20e-3, 2e-3)


@pytest.mark.parametrize(
    ("costs", "num_envs", "workers", "backend"),
    [
        (Costs(np.full(100, 6e-6)), 1024, WorkerCounts(8, 8, 16), "sync"),
        (Costs(EVEN), 16, WorkerCounts(2, 2, 8), "process"),
        (Costs(EVEN), 16, WorkerCounts(1, 1, 1), "sync"),
        (Costs(EVEN), 16, WorkerCounts(1, 1, 8), "sync"),
        (Costs(EVEN, waits=True), 16, WorkerCounts(1, 1, 8), "async"),
        (Costs(np.full(100, 60e-6)), 2, WorkerCounts(2, 2, 2), "sync"),
        (Costs(np.full(100, 60e-6)), 64, WorkerCounts(2, 2, 8), "process"),
        (Costs(UNEVEN), 16, WorkerCounts(16, 16, 16), "async"),
        (Costs(UNEVEN), 1024, WorkerCounts(2, 2, 8), "process"),
        (Costs(UNEVEN, waits=True), 16, WorkerCounts(2, 2, 8), "async"),
    ],
)
def test_the_cost_of_steps_decides_the_backend(
    costs: Costs, num_envs: int, workers: WorkerCounts, backend: str
) -> None:
    chosen, note = decide(costs, num_envs, workers, "gym:X")
    assert chosen == backend
    assert "gym:X" in note
    assert note.endswith(f"so {backend}.")


def test_lockstep_costs_nothing_for_even_steps_and_much_for_uneven_ones() -> None:
    assert Costs(EVEN).barrier(16, 4) == pytest.approx(1)
    assert Costs(UNEVEN).barrier(8, 8) > 2
    assert Costs(UNEVEN).barrier(4096, 2) < 1.1


def test_measured_steps_include_resets() -> None:
    made = EnvFactory("CartPole-v1")
    costs = measure(made)
    assert 50 < len(costs.seconds) <= 200
    assert 0 < costs.mean < 0.1


def test_a_slow_environment_is_measured_briefly(monkeypatch: pytest.MonkeyPatch) -> None:
    made = EnvFactory("CartPole-v1")
    env = made.make()
    step = env.step
    calls = []

    def slow(action: Any) -> Any:
        calls.append(action)
        time.sleep(0.04)
        return step(action)

    monkeypatch.setattr(env, "step", slow)
    monkeypatch.setattr(EnvFactory, "make", lambda self: env)
    costs = measure(made)
    assert costs.mean >= 0.04
    assert costs.waits
    assert len(calls) <= 9


def test_a_cheap_environment_uses_the_sync_backend() -> None:
    costs = measure(EnvFactory("MountainCar-v0"))
    assert not costs.waits
    backend, note = choose(EnvFactory("MountainCar-v0"), 64)
    assert backend == "sync"
    assert "less than training on it" in note
    assert usable_cores() >= 1


def test_the_environment_has_a_note_about_the_measurement() -> None:
    env: Any = make_env("gym:MountainCar-v0", 4)
    assert len(env.notes) == 1
    assert "a step of gym:MountainCar-v0 takes" in env.notes[0]
    env.close()


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("gym:CartPoll-v1", "Did you mean gym:CartPole-v1"),
        ("gymm:CartPole-v1", "Did you mean 'gym'"),
        ("gym", "needs a name after a colon"),
        ("gym:", "names no environment"),
        ("snake:10", "is one environment"),
        ("gym:no_such_package:X-v0", "Cannot import 'no_such_package'"),
        ("gym:brisktest/FaultyWorld-v0", "unexpected keyword argument 'fualt'"),
        ("gym:brisktest/TextWorld-v0", "Text space"),
    ],
)
def test_wrong_names_and_arguments_are_explained(name: str, message: str) -> None:
    arguments = {"fualt": "x"} if "Faulty" in name else {}
    config = GymConfig(packages=("tests.envs.gym.toy_envs",), env_args=arguments)
    with pytest.raises(ConfigError, match=message):
        make_env(name, 2, config=config if name.startswith("gym:") else None)


@pytest.mark.parametrize(
    ("member", "module", "extra"),
    [("LunarLander-v3", "Box2D", "box2d"), ("Ant-v5", "mujoco", "mujoco")],
)
def test_a_missing_package_is_reported_with_gymnasiums_hint(
    member: str, module: str, extra: str
) -> None:
    if importlib.util.find_spec(module) is not None:
        pytest.skip(f"{module} is installed")
    with pytest.raises(ConfigError, match=rf"gymnasium\[{extra}\]"):
        make_env(f"gym:{member}", 1)


def test_arguments_and_packages_reach_the_environment() -> None:
    config = GymConfig(packages=("tests.envs.gym.toy_envs",), env_args={"fault": "nan"})
    env = EnvFactory("brisktest/FaultyWorld-v0", config).make()
    assert env.unwrapped.fault == "nan"  # type: ignore[attr-defined]
    assert "gym:anything" in ENVS
    assert "gym:" not in ENVS
    assert ENVS.get("gym:anything").load_config() is GymConfig


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"env_args": {"render_mode": "human"}}, "cannot hold 'render_mode'"),
        ({"env_args": {"max_episode_steps": 3}}, "Use max_steps"),
        ({"env_args": {"x": None}}, "env_args.x = None"),
        ({"env_args": {"x": [float("nan")]}}, "not a JSON value"),
        ({"packages": ("a b",)}, "cannot be the name of a Python package"),
        ({"backend": "sync", "min_ready": 3}, "min_ready is for"),
    ],
)
def test_invalid_settings_are_explained(settings: dict[str, Any], message: str) -> None:
    assert any(message in sentence for sentence in GymConfig(**settings).check())
