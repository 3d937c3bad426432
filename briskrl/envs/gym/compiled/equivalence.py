"""Whether a compiled version is equal to the environment that a recipe makes, found out by playing.

Both are played side by side, over ends by themselves and by the time limit, and take over each
other's saved states on the way; then each makes single steps from states that play seldom reaches.
Everything has to be equal to the bit.
"""

from __future__ import annotations

from dataclasses import fields, replace
from typing import Any

import numpy as np
from gymnasium import Wrapper
from gymnasium.vector import AutoresetMode

from briskrl.core.spec import DiscreteSpec, EnvSpec
from briskrl.core.types import Array, StepBuffers
from briskrl.envs.base import VecEnv
from briskrl.envs.gym.compiled.env import GymCompiledEnv
from briskrl.envs.gym.compiled.registry import StandIn
from briskrl.envs.gym.env_factory import EnvRecipe
from briskrl.envs.gym.sync import GymSyncEnv

NUM_ENVS, NUM_STEPS = 8, 256
MAX_STEPS = 25
"""The time limit while they play, so that it ends some of the episodes."""
NUM_STATES = 2048
SEED = 20_000
TRIED = NUM_ENVS * NUM_STEPS + NUM_STATES
"""Steps in which the two are compared."""


class Difference(Exception):  # noqa: N818 - an answer, not an error shown
    """The first thing that was not equal, as a clause."""


_known: dict[tuple[Any, ...], str] = {}


def difference(recipe: EnvRecipe, spec: EnvSpec, stand_in: StandIn) -> str:
    """Why a compiled version cannot stand in for what the recipe makes; empty if it can.

    Args:
        recipe: How the environment is made.
        spec: What `recipe.spec()` gave, with a state to be trusted: that is tried here as well.
        stand_in: The compiled version.
    """
    env = recipe.make()
    try:
        kind = type(env)
        if isinstance(env, Wrapper):
            return f"it is wrapped in {kind.__name__}"
        if kind is not stand_in.stands_for:
            return f"it is a {kind.__module__}.{kind.__qualname__}"
        key = (kind, kind.reset, kind.step, kind.__init__, stand_in.settings(env))
    finally:
        env.close()
    if key not in _known:
        _known[key] = _first_difference(recipe, spec, stand_in)
    return _known[key]


def _first_difference(recipe: EnvRecipe, spec: EnvSpec, stand_in: StandIn) -> str:
    try:
        _play(recipe, spec, stand_in)
        _try_states(recipe, spec, stand_in)
    except Difference as found:
        return str(found)
    except Exception as error:
        # It is not to be used then; the other backends tell what is wrong with the environment.
        return f"comparing them raised {type(error).__name__}: {error}"
    return ""


def _play(recipe: EnvRecipe, spec: EnvSpec, stand_in: StandIn) -> None:
    """Play both side by side, and hand their states over crosswise half-way.

    Raises:
        Difference: They differ.
    """
    short = replace(recipe, config=replace(recipe.config, max_steps=MAX_STEPS))
    ours: VecEnv = GymCompiledEnv(short, NUM_ENVS, spec, stand_in)
    theirs: VecEnv = GymSyncEnv(short, NUM_ENVS, spec)
    try:
        mine, yours = (StepBuffers.allocate(spec, NUM_ENVS) for _ in range(2))
        ours.start(SEED, mine)
        theirs.start(SEED, yours)
        _compare("first obs", mine.obs, yours.obs)
        for count, actions in enumerate(_actions(spec, (NUM_STEPS, NUM_ENVS)), 1):
            ours.step_into(actions, mine)
            theirs.step_into(actions, yours)
            _compare_steps(mine, yours, count)
            if count == NUM_STEPS // 2:
                _compare_records(ours, theirs)
                here, there = ours.get_state(), theirs.get_state()
                ours.set_state(there)
                theirs.set_state(here)
        _compare_records(ours, theirs)
    finally:
        ours.close()
        theirs.close()


def _try_states(recipe: EnvRecipe, spec: EnvSpec, stand_in: StandIn) -> None:
    """Compare single steps from random states within the version's reach.

    Raises:
        Difference: They differ.
    """
    still = AutoresetMode.DISABLED
    ours = GymCompiledEnv(recipe, NUM_STATES, spec, stand_in, autoreset_mode=still)
    real = recipe.make()
    try:
        real.reset(seed=SEED)
        out = StepBuffers.allocate(spec, NUM_STATES)
        ours.start(SEED, out)
        reach = np.array(stand_in.reach)
        states = np.random.default_rng(SEED).uniform(-reach, reach, (NUM_STATES, len(reach)))
        ours.states[:] = states
        actions = _actions(spec, (NUM_STATES,))
        ours.step_into(actions, out)
        for env, state in enumerate(states):
            stand_in.write(real, state)
            _, reward, terminated, _, _ = real.step(actions[env])
            told = f"after a step from {state.tolist()}"
            _compare(f"the state {told}", ours.states[env], stand_in.read(real))
            _compare(f"the reward {told}", out.reward[env], np.float32(reward))
            _compare(f"the end {told}", out.terminated[env], np.bool_(terminated))
    finally:
        real.close()
        ours.close()


def _compare_steps(mine: StepBuffers, yours: StepBuffers, count: int) -> None:
    for name in ("obs", "reward", "terminated", "truncated"):
        _compare(f"{name} in step {count}", getattr(mine, name), getattr(yours, name))
    ended = yours.terminated | yours.truncated
    _compare(f"final_obs in step {count}", mine.final_obs[ended], yours.final_obs[ended])


def _compare_records(ours: VecEnv, theirs: VecEnv) -> None:
    mine, yours = ours.drain_stats(), theirs.drain_stats()
    for field in fields(yours):
        name = field.name
        _compare(f"{name} of the episodes", getattr(mine, name), getattr(yours, name))


def _compare(what: str, mine: Array | np.generic, yours: Array | np.generic) -> None:
    if mine.dtype != yours.dtype or mine.tobytes() != yours.tobytes():
        raise Difference(f"{what} is not equal")


def _actions(spec: EnvSpec, shape: tuple[int, ...]) -> Array:
    assert isinstance(spec.action, DiscreteSpec)
    return np.random.default_rng(SEED).integers(spec.action.n, size=shape)
