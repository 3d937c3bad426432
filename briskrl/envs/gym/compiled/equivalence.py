"""Check that a compiled version is bit-identical to the original environment.

Both play the same episodes, with terminations and truncations, and exchange their saved states half
way. Then both take single steps from random states that play seldom reaches.
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
from briskrl.envs.gym.compiled.registry import CompiledVersion
from briskrl.envs.gym.env_factory import EnvFactory
from briskrl.envs.gym.sync import GymSyncEnv

NUM_ENVS, NUM_STEPS = 8, 256
MAX_STEPS = 25
"""Time limit of the compared episodes, short so that it truncates some of them."""
NUM_STATES = 2048
SEED = 20_000
STEPS_COMPARED = NUM_ENVS * NUM_STEPS + NUM_STATES
"""Number of compared steps."""


class Difference(Exception):  # noqa: N818 - a result, never shown as an error
    """The first difference found, as a clause."""


_known: dict[tuple[Any, ...], str] = {}


def difference(factory: EnvFactory, spec: EnvSpec, version: CompiledVersion) -> str:
    """How a compiled version differs from the original, as a clause; empty if it is identical.

    Args:
        factory: Makes the original environment.
        spec: The result of `factory.spec()`, with `exact_state` set; states are compared too.
        version: The compiled version.
    """
    env = factory.make()
    try:
        kind = type(env)
        if isinstance(env, Wrapper):
            return f"it is wrapped in {kind.__name__}"
        if kind is not version.env_class:
            return f"it is a {kind.__module__}.{kind.__qualname__}"
        key = (kind, kind.reset, kind.step, kind.__init__, version.settings(env))
    finally:
        env.close()
    if key not in _known:
        _known[key] = _first_difference(factory, spec, version)
    return _known[key]


def _first_difference(factory: EnvFactory, spec: EnvSpec, version: CompiledVersion) -> str:
    try:
        _compare_episodes(factory, spec, version)
        _compare_states(factory, spec, version)
    except Difference as found:
        return str(found)
    except Exception as error:
        # The other backends report what is wrong with the environment.
        return f"comparing them raised {type(error).__name__}: {error}"
    return ""


def _compare_episodes(factory: EnvFactory, spec: EnvSpec, version: CompiledVersion) -> None:
    """Play the same episodes on both, exchanging their states half way.

    Raises:
        Difference: They differ.
    """
    short = replace(factory, config=replace(factory.config, max_steps=MAX_STEPS))
    ours: VecEnv = GymCompiledEnv(short, NUM_ENVS, spec, version)
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


def _compare_states(factory: EnvFactory, spec: EnvSpec, version: CompiledVersion) -> None:
    """Compare single steps from random states within `version.state_bounds`.

    Raises:
        Difference: They differ.
    """
    disabled = AutoresetMode.DISABLED
    ours = GymCompiledEnv(factory, NUM_STATES, spec, version, autoreset_mode=disabled)
    real = factory.make()
    try:
        real.reset(seed=SEED)
        out = StepBuffers.allocate(spec, NUM_STATES)
        ours.start(SEED, out)
        bounds = np.array(version.state_bounds)
        states = np.random.default_rng(SEED).uniform(-bounds, bounds, (NUM_STATES, len(bounds)))
        ours.states[:] = states
        actions = _actions(spec, (NUM_STATES,))
        ours.step_into(actions, out)
        for env, state in enumerate(states):
            version.write(real, state)
            _, reward, terminated, _, _ = real.step(actions[env])
            where = f"after a step from {state.tolist()}"
            _compare(f"the state {where}", ours.states[env], version.read(real))
            _compare(f"the reward {where}", out.reward[env], np.float32(reward))
            _compare(f"terminated {where}", out.terminated[env], np.bool_(terminated))
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
