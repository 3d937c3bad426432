"""Environments passed as an instance, a class or a function: the same runs as by their id."""

from __future__ import annotations

import functools
import threading
from pathlib import Path
from typing import Any

import gymnasium
import numpy as np
import pytest
from gymnasium.wrappers import TimeLimit

from briskrl.core.errors import ConfigError, EnvStepError
from briskrl.envs.gym.config import GymConfig
from briskrl.envs.gym.env_factory import EnvFactory
from briskrl.envs.gym.given_factory import build_given
from briskrl.envs.gym.process import GymProcessEnv
from briskrl.envs.gym.sync import GymSyncEnv
from briskrl.training.config import TrainConfig
from briskrl.training.evaluate import evaluate
from briskrl.training.loop import resume, train
from tests.envs.gym.toy_envs import FaultyWorld, World
from tests.envs.recording import assert_same, play, random_actions

LIMIT = 20


def by_id(num_envs: int) -> GymSyncEnv:
    factory = EnvFactory("brisktest/World-v0", GymConfig(packages=("tests.envs.gym.toy_envs",)))
    return GymSyncEnv(factory, num_envs, factory.spec())


class LockedWorld(World):
    """Holds a lock, which cannot be copied."""

    def __init__(self) -> None:
        self.lock = threading.Lock()


def limited() -> Any:
    return TimeLimit(World(), LIMIT)


GIVEN = {
    "instance": limited,
    "registered instance": lambda: gymnasium.make("brisktest/World-v0"),
    "class": lambda: World,
    "function": lambda: limited,
    "lambda": lambda: lambda: TimeLimit(World(), LIMIT),
    "partial": lambda: functools.partial(limited),
}


@pytest.mark.parametrize("backend", ["sync", "process", "async"])
@pytest.mark.parametrize("kind", GIVEN)
def test_what_is_given_plays_as_the_registered_environment(kind: str, backend: Any) -> None:
    config = GymConfig(backend=backend, workers=2, max_steps=LIMIT)
    env = build_given(GIVEN[kind](), 4, config)
    expected = by_id(4)
    try:
        assert isinstance(env, GymSyncEnv if backend == "sync" else GymProcessEnv)
        actions = random_actions(expected.env_spec, 60, 4)
        assert_same(play(env, actions, seed=5), play(expected, actions, seed=5))
        assert env.env_spec.max_steps == LIMIT
        assert env.env_spec.exact_state
    finally:
        env.close()


def test_a_class_of_the_main_program_steps_in_workers() -> None:
    """Cloudpickle sends it by value, because workers do not import the main program."""

    class Local(World):
        def observe(self) -> Any:
            return np.array([0.5, self.count / 100], np.float32)

    env = build_given(Local, 2, GymConfig(backend="process", workers=1))
    try:
        trace = play(env, random_actions(env.env_spec, 5, 2), seed=0)
        assert (trace.rows["obs"][..., 0] == 0.5).all()
    finally:
        env.close()


def test_an_instance_that_cannot_be_copied_trains_alone() -> None:
    with pytest.raises(ConfigError, match=r"LockedWorld cannot be copied.*Pass its class"):
        build_given(LockedWorld(), 2, GymConfig())
    env = build_given(LockedWorld(), 1, GymConfig())
    assert play(env, random_actions(env.env_spec, 5, 1), seed=0).rows["obs"].shape[1] == 1


@pytest.mark.parametrize(
    ("env", "config", "message"),
    [
        (World, GymConfig(env_args={"x": 1}), "env_args is for environments that are named"),
        (World, GymConfig(backend="vector"), "backend 'vector' is for environments that are named"),
        (lambda: 5, GymConfig(), "<lambda> returned int, which is not a gymnasium.Env"),
        (lambda: 1 / 0, GymConfig(), r"(?s)cannot be made: ZeroDivisionError.*test_given\.py"),
    ],
)
def test_what_cannot_be_used_is_refused_with_a_reason(
    env: Any, config: GymConfig, message: str
) -> None:
    with pytest.raises(ConfigError, match=message):
        build_given(env, 2, config)


def test_a_class_trains_resumes_and_is_evaluated(tmp_path: Path) -> None:
    run_dir = tmp_path / "run"
    config = TrainConfig(
        algo="a2c",
        num_envs=4,
        steps=320,
        run_dir=str(run_dir),
        engine="fused",
        algo_config={"lr_schedule": "constant"},
        env_config={"max_steps": LIMIT, "backend": "sync"},
    )
    assert train(config, env=World).exact_resume
    assert resume(run_dir, steps=640, env=World).env_steps == 640
    whole = TrainConfig(**{**_values(config), "steps": 640, "run_dir": str(tmp_path / "whole")})
    train(whole, env=World)
    model = Path("policy") / "model.safetensors"
    assert (run_dir / model).read_bytes() == (tmp_path / "whole" / model).read_bytes()
    result = evaluate(run_dir, env=World, episodes=6)
    assert result.episodes == 6
    assert 1 <= result.mean_steps <= LIMIT
    vector = gymnasium.vector.SyncVectorEnv([limited] * 4)
    assert evaluate(run_dir, env=vector, episodes=6).episodes == 6
    assert not vector.closed
    with pytest.raises(ConfigError, match=r"evaluate\(run_dir, env=\.\.\.\)"):
        evaluate(run_dir, episodes=1)


def _values(config: TrainConfig) -> dict[str, Any]:
    return {name: getattr(config, name) for name in config.__slots__}


@pytest.mark.parametrize("backend", ["sync", "process", "async"])
def test_an_error_shows_the_lines_of_the_environment_on_every_backend(backend: Any) -> None:
    env = build_given(FaultyWorld, 2, GymConfig(backend=backend, workers=1, max_steps=LIMIT))
    try:
        with pytest.raises(EnvStepError) as caught:
            play(env, random_actions(env.env_spec, 10, 2), seed=3)
    finally:
        env.close()
    first, _, rest = str(caught.value).partition("\n\n")
    assert first.startswith("Environment 0 (FaultyWorld) raised in step: RuntimeError: the dragon")
    assert rest.startswith("Traceback (most recent call last):\n")
    # Nothing of the package above the environment's own lines.
    assert "toy_envs.py" in rest.splitlines()[1]
    assert 'raise RuntimeError("the dragon escaped")' in rest
    assert rest.count("Traceback") == 1
