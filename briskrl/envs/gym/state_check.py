"""Check by one trial whether the state of an environment can be saved and restored exactly."""

from __future__ import annotations

import copy
import json
import time
from typing import TYPE_CHECKING, Any

import numpy as np

from briskrl.core.errors import EnvWorkerError
from briskrl.core.types import Array
from briskrl.envs.gym import snapshot

if TYPE_CHECKING:
    from briskrl.envs.gym.deadline import Deadline
    from briskrl.envs.gym.env_factory import EnvFactory, GymEnv

FIRST_STEPS = 4
SLOW_S = 0.05
"""Environments whose first steps take longer are not checked."""
STEPS = 32
_checked: dict[str, bool] = {}


def has_exact_state(factory: EnvFactory) -> bool:
    """Whether an instance restored from the saved state of another continues bit-identically.

    The state is saved in the middle of an episode; then both take the same random actions, over at
    least two resets. False for an environment that raises, or whose first steps are slow.
    """
    if factory.cache_key is None:
        return _is_restored(factory)
    key = json.dumps(factory.cache_key, sort_keys=True)
    if key not in _checked:
        _checked[key] = _is_restored(factory)
    return _checked[key]


def _is_restored(factory: EnvFactory) -> bool:
    try:
        with factory.deadline("cannot be used: a step or reset") as deadline:
            return _try(factory, deadline)
    except EnvWorkerError:
        raise
    except Exception:
        # The error is reported when the environment is stepped for training.
        return False


def _try(factory: EnvFactory, deadline: Deadline) -> bool:
    one, other = factory.make(), None
    try:
        space = copy.deepcopy(one.action_space)
        space.seed(0)
        actions = [space.sample() for _ in range(FIRST_STEPS + STEPS)]
        deadline.restart()
        one.reset(seed=1)
        begun = time.perf_counter()
        _play(factory, one, actions[:FIRST_STEPS], deadline)
        if time.perf_counter() - begun > SLOW_S:
            return False
        state = snapshot.take(one)
        if state is None:
            return False
        text = snapshot.to_text(state)
        expected = _play(factory, one, actions[FIRST_STEPS:], deadline)
        other = factory.make()
        deadline.restart()
        other.reset(seed=2)
        snapshot.restore(other, json.loads(text))
        found = _play(factory, other, actions[FIRST_STEPS:], deadline)
        return found == expected and snapshot.to_text(snapshot.take(other)) == snapshot.to_text(
            snapshot.take(one)
        )
    finally:
        one.close()
        if other is not None:
            other.close()


def _play(factory: EnvFactory, env: GymEnv, actions: list[Any], deadline: Deadline) -> list[bytes]:
    """All that an environment returns, as bytes; includes resets in the middle and near the end."""
    obs_converter, _ = factory.make_converters(env)
    row: Array = np.zeros(obs_converter.spec.shape, obs_converter.spec.dtype)
    shown = []
    for count, action in enumerate(actions, 1):
        deadline.restart()
        obs, reward, terminated, truncated, _ = env.step(action)
        obs_converter.write(obs, row)
        outcome = np.array([float(reward), float(terminated), float(truncated)])
        shown.append(row.tobytes() + outcome.tobytes())
        if terminated or truncated or count in (STEPS // 2, STEPS - 4):
            obs, _ = env.reset()
            obs_converter.write(obs, row)
            shown.append(row.tobytes())
    return shown
