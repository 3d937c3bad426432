"""Whether the state of an environment can be copied exactly, found out by trying it once."""

from __future__ import annotations

import copy
import json
import time
from typing import TYPE_CHECKING, Any

import numpy as np

from briskrl.core.config import to_dict
from briskrl.core.types import Array
from briskrl.envs.gym import snapshot

if TYPE_CHECKING:
    from briskrl.envs.gym.env_factory import EnvRecipe, GymEnv

FIRST_STEPS = 4
SLOW_S = 0.05
"""Environments that need longer for the first steps are not tried."""
STEPS = 32
_proved: dict[str, bool] = {}


def proves_exact(recipe: EnvRecipe) -> bool:
    """Whether a copy of an instance's state, put into another, goes on equal to the bit.

    The copy is taken within an episode; random actions follow it over at least two resets. An
    environment that raises, or whose first steps are slow, proves nothing.
    """
    key = json.dumps([recipe.id, to_dict(recipe.config)], sort_keys=True)
    if key not in _proved:
        try:
            _proved[key] = _try(recipe)
        except Exception:
            # Whatever is wrong with the environment is told when it is stepped in earnest.
            _proved[key] = False
    return _proved[key]


def _try(recipe: EnvRecipe) -> bool:
    one, other = recipe.make(), None
    try:
        space = copy.deepcopy(one.action_space)
        space.seed(0)
        actions = [space.sample() for _ in range(FIRST_STEPS + STEPS)]
        one.reset(seed=1)
        begun = time.perf_counter()
        _play(recipe, one, actions[:FIRST_STEPS])
        if time.perf_counter() - begun > SLOW_S:
            return False
        state = snapshot.take(one)
        if state is None:
            return False
        text = snapshot.as_text(state)
        expected = _play(recipe, one, actions[FIRST_STEPS:])
        other = recipe.make()
        other.reset(seed=2)
        snapshot.restore(other, json.loads(text))
        found = _play(recipe, other, actions[FIRST_STEPS:])
        return found == expected and snapshot.as_text(snapshot.take(other)) == snapshot.as_text(
            snapshot.take(one)
        )
    finally:
        one.close()
        if other is not None:
            other.close()


def _play(recipe: EnvRecipe, env: GymEnv, actions: list[Any]) -> list[bytes]:
    """What an environment shows, as bytes; it is also reset in the middle and near the end."""
    observer, _ = recipe.layout(env)
    row: Array = np.zeros(observer.spec.shape, observer.spec.dtype)
    shown = []
    for count, action in enumerate(actions, 1):
        obs, reward, terminated, truncated, _ = env.step(action)
        observer.write(obs, row)
        told = np.array([float(reward), float(terminated), float(truncated)])
        shown.append(row.tobytes() + told.tobytes())
        if terminated or truncated or count in (STEPS // 2, STEPS - 4):
            obs, _ = env.reset()
            observer.write(obs, row)
            shown.append(row.tobytes())
    return shown
