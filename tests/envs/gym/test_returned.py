"""Environments that return something other than Gymnasium asks for, and constructors that hang."""

from __future__ import annotations

import signal
import time
from typing import Any

import gymnasium
import numpy as np
import pytest
from gymnasium import spaces

from briskrl.core.errors import ConfigError, EnvStepError, EnvWorkerError
from briskrl.core.types import StepBuffers
from briskrl.envs.gym.config import GymConfig
from briskrl.envs.gym.deadline import Deadline
from briskrl.envs.gym.env_factory import EnvFactory
from briskrl.envs.gym.returned import InvalidReturnError, to_flag, to_reward
from briskrl.envs.gym.spaces import make_obs_converter
from briskrl.envs.gym.sync import GymSyncEnv
from briskrl.envs.gym.vector import adapt_vector
from briskrl.envs.make import make_env

OBS = np.zeros(2, np.float32)


class OddEnv(gymnasium.Env[Any, Any]):
    """Returns what its arguments name, from its second step on."""

    observation_space = spaces.Box(-1, 1, (2,), np.float32)
    action_space = spaces.Discrete(2)

    def __init__(self, odd: str = "") -> None:
        self.odd = odd
        self.count = 0

    def reset(self, *, seed: int | None = None, options: Any = None) -> Any:
        self.count = 0
        return RESETS.get(self.odd, (OBS, {}))

    def step(self, action: Any) -> Any:
        self.count += 1
        return STEPS.get(self.odd, GOOD) if self.count > 1 else GOOD


GOOD = (OBS, 0.5, False, False, {})
STEPS: dict[str, Any] = {
    "terminated array": (OBS, 0.5, np.array([False, True]), False, {}),
    "terminated text": (OBS, 0.5, "False", False, {}),
    "terminated none": (OBS, 0.5, None, False, {}),
    "truncated list": (OBS, 0.5, False, [False, False], {}),
    "truncated number": (OBS, 0.5, False, 7, {}),
    "reward text": (OBS, "1.5", False, False, {}),
    "reward complex": (OBS, 1 + 2j, False, False, {}),
    "reward none": (OBS, None, False, False, {}),
    "reward array": (OBS, np.zeros(3), False, False, {}),
    "reward nan": (OBS, np.float32("nan"), False, False, {}),
    "reward inf": (OBS, -np.inf, False, False, {}),
    "obs complex": (OBS.astype(np.complex64), 0.5, False, False, {}),
    "obs text": (np.array(["0.1", "0.2"]), 0.5, False, False, {}),
    "obs objects": (np.array([None, None]), 0.5, False, False, {}),
    "obs ragged": ([[1], [1, 2]], 0.5, False, False, {}),
    "obs shape": (np.zeros((2, 1), np.float32), 0.5, False, False, {}),
    "obs none": (None, 0.5, False, False, {}),
    "four values": (OBS, 0.5, False, {}),
    "no tuple": OBS,
    "info list": (OBS, 0.5, True, False, []),
    "success array": (OBS, 0.5, True, False, {"is_success": np.array([True, False])}),
}
RESETS: dict[str, Any] = {
    "reset without info": OBS,
    "reset info none": (OBS, None),
    "reset three": (OBS, {}, 1),
}
EXPECTED = {
    "terminated array": r"returned terminated = array\(\[False, +True\]\) \(ndarray\)",
    "terminated text": r"returned terminated = 'False' \(str\), which is not a bool",
    "terminated none": r"returned terminated = None",
    "truncated list": r"returned truncated = \[False, False\] \(list\)",
    "truncated number": "returned truncated = 7",
    "reward text": r"returned reward = '1.5' \(str\), which is not a number",
    "reward complex": r"returned reward = \(1\+2j\) \(complex\)",
    "reward none": "returned reward = None",
    "reward array": r"returned reward = array\(\[0., 0., 0.\]\)",
    "reward nan": "returned the reward nan",
    "reward inf": "returned the reward -inf",
    "obs complex": "returned an observation of dtype complex64, which does not hold real numbers",
    "obs text": "returned an observation of dtype <U3",
    "obs objects": "returned an observation of dtype object",
    "obs ragged": "returned the observation .* which is not an array",
    "obs shape": r"returned an observation of shape \(2, 1\) instead of \(2,\)",
    "obs none": r"returned an observation of shape \(\) instead of \(2,\)",
    "four values": "returned 4 values from step instead of obs, reward, terminated",
    "no tuple": r"returned one value \(ndarray\) from step",
    "info list": r"returned info = \[\] \(list\), which is not a dict",
    "success array": 'returned "is_success" = array',
    "reset without info": r"returned one value \(ndarray\) from reset instead of obs and info",
    "reset info none": "returned info = None",
    "reset three": "returned 3 values from reset",
}

gymnasium.register("brisktest/Odd-v0", OddEnv, max_episode_steps=50)


def play(env: Any, steps: int = 4) -> None:
    out = StepBuffers.allocate(env.env_spec, env.num_envs)
    try:
        env.start(0, out)
        for _ in range(steps):
            env.step_into(np.zeros(env.num_envs, np.int64), out)
    finally:
        env.close()


@pytest.mark.parametrize("odd", STEPS)
def test_what_a_step_returned_is_named_with_the_environment(odd: str) -> None:
    config = GymConfig(backend="sync", env_args={"odd": odd})
    spec = EnvFactory("brisktest/Odd-v0").spec()
    env = GymSyncEnv(EnvFactory("brisktest/Odd-v0", config), 2, spec)
    with pytest.raises(EnvStepError, match=EXPECTED[odd]) as caught:
        play(env)
    assert str(caught.value).startswith("Environment 0 (gym:brisktest/Odd-v0) returned ")


@pytest.mark.parametrize("odd", [*RESETS, "terminated array", "four values", "truncated list"])
def test_the_probes_before_training_name_it_too(odd: str) -> None:
    with pytest.raises(ConfigError, match=f"^gym:brisktest/Odd-v0 {EXPECTED[odd]}"):
        make_env("gym:brisktest/Odd-v0", 2, GymConfig(env_args={"odd": odd}))


@pytest.mark.parametrize("value", [True, np.True_, 1, np.int8(1), np.array(True), 1.0])
def test_flags_that_mean_a_bool_are_accepted(value: Any) -> None:
    assert to_flag("terminated", value) is True


@pytest.mark.parametrize("value", [b"1", 2, -1, float("nan"), 1j, {}, np.array([1]), object()])
def test_flags_that_mean_nothing_are_not(value: Any) -> None:
    with pytest.raises(InvalidReturnError, match="truncated = "):
        to_flag("truncated", value)


def test_rewards_of_any_number_type_are_accepted() -> None:
    assert [to_reward(value) for value in (2, np.float16(2), np.array(2), True)] == [2, 2, 2, 1]


@pytest.mark.parametrize("value", [1.5, "1", np.array([1, 1]), 1j, None, 9])
def test_a_discrete_observation_must_be_a_member(value: Any) -> None:
    write = make_obs_converter(spaces.Discrete(3)).write
    with pytest.raises(ValueError, match=r"^the observation .* which is not in Discrete\(3\)"):
        write(value, np.zeros(3, np.float32))
    write(np.int64(2), np.zeros(3, np.float32))


@pytest.mark.parametrize("value", [np.array([256, 0]), np.array([-1, 0]), np.array([0.5, 0.0])])
def test_numbers_outside_of_bytes_are_not_wrapped_around(value: Any) -> None:
    converter = make_obs_converter(spaces.Box(0, 255, (2,), np.uint8))
    with pytest.raises(ValueError, match="do not fit into uint8"):
        converter.write(value, np.zeros(2, np.uint8))
    row = np.zeros(2, np.uint8)
    converter.write([255, 1], row)
    assert row.tolist() == [255, 1]


class OddVector(gymnasium.vector.VectorEnv[Any, Any, Any]):
    """A vector environment that returns what it is given."""

    metadata: dict[str, Any] = {"autoreset_mode": gymnasium.vector.AutoresetMode.SAME_STEP}  # noqa: RUF012

    def __init__(self, *result: Any) -> None:
        self.num_envs = 2
        self.single_observation_space = spaces.Box(-1, 1, (2,), np.float32)
        self.single_action_space = spaces.Discrete(2)
        self.result = result

    def reset(self, *, seed: Any = None, options: Any = None) -> Any:
        return np.zeros((2, 2), np.float32), {}

    def step(self, actions: Any) -> Any:
        return (*self.result, {})


ROWS = np.zeros((2, 2), np.float32)
NONE = np.zeros(2, bool)
VECTORS = [
    ((ROWS, np.zeros(2), np.array(["False", "x"]), NONE), "terminated of shape .* dtype <U5"),
    ((ROWS, np.zeros(2), NONE, np.zeros(3, bool)), r"truncated of shape \(3,\)"),
    ((ROWS, np.zeros(2, complex), NONE, NONE), "reward of shape .* dtype complex128"),
    ((ROWS.astype(complex), np.zeros(2), NONE, NONE), "dtype complex128, which does not hold"),
]


@pytest.mark.parametrize(("result", "message"), VECTORS, ids=[case[1] for case in VECTORS])
def test_vector_environments_are_held_to_the_same(result: tuple[Any, ...], message: str) -> None:
    with pytest.raises(EnvStepError, match=f"The vector environment returned .*{message}"):
        play(adapt_vector(OddVector(*result)))


class SleepyEnv(OddEnv):
    """Hangs in its constructor."""

    def __init__(self) -> None:
        super().__init__()
        while True:
            time.sleep(3600)


gymnasium.register("brisktest/Sleepy-v0", f"{__name__}:SleepyEnv", max_episode_steps=50)


@pytest.mark.parametrize("backend", ["auto", "sync", "process"])
def test_a_constructor_that_hangs_ends_after_the_timeout(backend: Any) -> None:
    begun = time.monotonic()
    with pytest.raises(EnvWorkerError, match=r"Sleepy-v0 .* 0.3 s \(env_timeout\)"):
        make_env("gym:brisktest/Sleepy-v0", 2, GymConfig(backend=backend, env_timeout=0.3))
    assert time.monotonic() - begun < 20


def test_a_deadline_that_is_caught_comes_again_and_leaves_no_alarm() -> None:
    def sleep_twice() -> None:
        with Deadline(0.05, "x"):
            try:
                time.sleep(60)
            except BaseException:
                time.sleep(60)

    before = signal.getsignal(signal.SIGALRM)
    with pytest.raises(EnvWorkerError, match="x has not returned"):
        sleep_twice()
    assert signal.getitimer(signal.ITIMER_REAL) == (0.0, 0.0)
    assert signal.getsignal(signal.SIGALRM) == before
    with pytest.raises(EnvWorkerError, match="for 1e-09 s"), Deadline(1e-9, "x"):
        time.sleep(60)
    with Deadline(60, "x"), Deadline(1e300, "y"):
        pass
    assert signal.getitimer(signal.ITIMER_REAL) == (0.0, 0.0)
