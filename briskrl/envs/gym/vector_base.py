"""Base class of adapters for third-party vector environments, and batch conversions."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
from gymnasium import Space, spaces
from gymnasium.vector.utils import batch_space, iterate
from numpy.typing import NDArray

from briskrl.core.errors import EnvStepError
from briskrl.core.spec import BoxSpec, DiscreteSpec, EnvSpec
from briskrl.core.types import Array, Bools, EpisodeStats, Ints, StepBuffers
from briskrl.envs.base import AsyncVecEnv
from briskrl.envs.gym.actions import make_action_converter
from briskrl.envs.gym.episode_records import EpisodeRecords, EpisodeRows
from briskrl.envs.gym.returned import check_numbers
from briskrl.envs.gym.snapshot import next_seed
from briskrl.envs.gym.spaces import ObsConverter, make_obs_converter

SEEDS = 2**30
"""Seeds of vector environments are below this, so that seed + i stays below 2**31."""


class VectorBatch:
    """N envs of a third-party vector environment: everything except stepping it."""

    codec = None

    @property
    def async_env(self) -> AsyncVecEnv | None:
        """See VecEnv.async_env."""
        return None

    def __init__(
        self,
        obs_space: Space[Any],
        action_space: Space[Any],
        num_envs: int,
        *,
        max_steps: int | None,
        has_mask: bool,
    ) -> None:
        source = "the vector environment"
        self._obs_converter = make_obs_converter(obs_space, source)
        action_converter = make_action_converter(action_space, joint=False, source=source)
        self.num_envs = num_envs
        self.env_spec = EnvSpec(
            obs=self._obs_converter.spec,
            action=action_converter.spec,
            max_steps=max_steps,
            has_mask=has_mask and isinstance(action_converter.spec, DiscreteSpec),
            exact_state=False,
        )
        self.notes: list[str] = []
        """Messages for the user about how the environments are run."""
        self._write_all = write_batch(obs_space, self._obs_converter, num_envs)
        self._convert_all = convert_batch(action_space)
        self._returns: NDArray[np.float64] = np.zeros(num_envs)
        self._lengths: Ints = np.zeros(num_envs, np.int64)
        self._records = EpisodeRecords()
        self._seed = 0
        floats = self.env_spec.obs.dtype == np.float32
        self._zeros = np.zeros(num_envs * self.env_spec.obs.size, np.float32) if floats else None

    def drain_stats(self) -> EpisodeStats:
        """Episodes finished since the last call, by step and then by env."""
        return self._records.drain()

    def get_state(self) -> Mapping[str, Array]:
        """The seed to restart with; the state of such an environment cannot be saved."""
        return {"seed": np.array([next_seed(self._seed, SEEDS)], np.int64)}

    def _begin(self, seed: int) -> int:
        """Clear the episode counters and return the seed for the vector environment."""
        self._seed = seed % SEEDS
        self._returns[:], self._lengths[:] = 0, 0
        self._records.clear()
        return self._seed

    def _write_obs(self, obs: Any, rows: Array) -> None:
        """Write the observations of all envs.

        Raises:
            EnvStepError: They are not finite or have a wrong shape.
        """
        try:
            self._write_all(obs, rows)
        except (ValueError, TypeError) as error:
            raise EnvStepError(f"The vector environment returned {error}.") from error
        if self._zeros is not None and rows.reshape(-1).dot(self._zeros) != 0.0:
            bad = int(np.flatnonzero(~np.isfinite(rows.reshape(self.num_envs, -1)).all(axis=1))[0])
            raise EnvStepError(
                f"Environment {bad} of the vector environment returned an observation that is not "
                "finite.",
                bad,
            )

    def _write_outcome(
        self, reward: Any, terminated: Any, truncated: Any, out: StepBuffers
    ) -> Bools:
        """Write rewards, terminations and truncations of all envs; returns which episodes ended."""
        reward = self._check_row("reward", reward)
        terminated = self._check_row("terminated", terminated)
        truncated = self._check_row("truncated", truncated)
        out.reward[...] = reward
        if not np.isfinite(out.reward).all():
            bad = int(np.flatnonzero(~np.isfinite(out.reward))[0])
            raise EnvStepError(f"Environment {bad} returned the reward {out.reward[bad]}.", bad)
        out.terminated[...] = terminated
        # An episode that terminates in its last allowed step counts as terminated.
        out.truncated[...] = np.asarray(truncated, np.bool_) & ~out.terminated
        ended: Bools = out.terminated | out.truncated
        return ended

    def _check_row(self, name: str, value: Any) -> Array:
        """One real number or flag per env, as an array (N,)."""
        array = np.asarray(value)
        if array.shape != (self.num_envs,) or array.dtype.kind not in "biuf":
            raise EnvStepError(
                f"The vector environment returned {name} of shape {array.shape} and dtype "
                f"{array.dtype} instead of one number per environment, shape ({self.num_envs},)."
            )
        return array

    def _count_step(self, out: StepBuffers, stepped: Bools | None = None) -> None:
        """Count a step of all envs, or only of `stepped` (N,), and record ended episodes."""
        moved = np.ones(self.num_envs, np.bool_) if stepped is None else stepped
        self._returns += np.where(moved, out.reward, 0)
        self._lengths += moved
        ended = moved & (out.terminated | out.truncated)
        if not ended.any():
            return
        which = np.flatnonzero(ended)
        rows = StepBuffers(
            obs=out.obs[:0],
            reward=out.reward[which],
            terminated=out.terminated[which],
            truncated=out.truncated[which],
            final_obs=out.final_obs[:0],
        )
        won = np.zeros(len(which), np.bool_)
        episode = EpisodeRows(self._returns[which], self._lengths[which], won)
        self._records.add(rows, episode, which)
        self._returns[which], self._lengths[which] = 0, 0


def write_batch(
    space: Space[Any], obs_converter: ObsConverter, num_envs: int
) -> Callable[[Any, Array], None]:
    """A function that writes a batch of observations to rows (N, *obs)."""
    batched = batch_space(space, num_envs)
    if isinstance(space, spaces.Box):
        shape = (num_envs, *space.shape)
        flip = len(space.shape) == 3 and obs_converter.spec.shape != space.shape

        def write_arrays(value: Any, rows: Array) -> None:
            array = np.asarray(value)
            if array.shape != shape:
                raise ValueError(f"observations of shape {array.shape} instead of {shape}")
            check_numbers(array)
            rows[...] = array.transpose(0, 3, 1, 2) if flip else array.reshape(rows.shape)

        return write_arrays

    def write(value: Any, rows: Array) -> None:
        for row, one in zip(rows, iterate(batched, value), strict=True):
            obs_converter.write(one, row)

    return write


def convert_batch(space: Space[Any]) -> Callable[[Array], Array]:
    """A function that converts actions (N,) or (N, D) to a batch of the space; always a copy."""
    action_converter = make_action_converter(space, joint=False)
    if isinstance(space, spaces.Discrete):
        start = np.int64(space.start)
        return lambda actions: actions + start
    if isinstance(action_converter.spec, BoxSpec):
        assert isinstance(space, spaces.Box)
        low, high, shape, dtype = space.low, space.high, space.shape, space.dtype

        def convert_box(actions: Array) -> Array:
            batch = actions.reshape(-1, *shape)
            return np.minimum(np.maximum(batch, low), high).astype(dtype, copy=False)

        return convert_box
    assert isinstance(space, spaces.MultiDiscrete | spaces.MultiBinary)
    starts = space.start if isinstance(space, spaces.MultiDiscrete) else 0
    several, kind = space.shape, space.dtype

    def convert_multi_discrete(actions: Array) -> Array:
        return (actions.reshape(-1, *several) + starts).astype(kind, copy=False)

    return convert_multi_discrete
