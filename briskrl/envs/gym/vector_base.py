"""What all vector environments made by others share: batches in, batches out, and records."""

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
from briskrl.envs.gym.actions import act
from briskrl.envs.gym.env_group import EpisodeRows
from briskrl.envs.gym.episode_records import Ledger
from briskrl.envs.gym.snapshot import next_seed
from briskrl.envs.gym.spaces import Observer, observe

SEEDS = 2**30
"""Seeds handed to vector environments lie below this, so that seed + i is a small number too."""


class VectorBatch:
    """N environments of somebody else's vector environment: the parts that do not step it."""

    partial = False

    def __init__(
        self,
        obs_space: Space[Any],
        action_space: Space[Any],
        num_envs: int,
        *,
        max_steps: int | None,
        has_mask: bool,
    ) -> None:
        told = "the vector environment"
        self._observer = observe(obs_space, told)
        actor = act(action_space, joint=False, told=told)
        self.num_envs = num_envs
        self.env_spec = EnvSpec(
            obs=self._observer.spec,
            action=actor.spec,
            max_steps=max_steps,
            has_mask=has_mask and isinstance(actor.spec, DiscreteSpec),
            exact_state=False,
        )
        self.notes: list[str] = []
        """Sentences about how the environments are run, to be shown once."""
        self._write_all = write_batch(obs_space, self._observer, num_envs)
        self._read_all = read_batch(action_space)
        self._returns: NDArray[np.float64] = np.zeros(num_envs)
        self._lengths: Ints = np.zeros(num_envs, np.int64)
        self._ledger = Ledger()
        self._seed = 0
        floats = self.env_spec.obs.dtype == np.float32
        self._zeros = np.zeros(num_envs * self.env_spec.obs.size, np.float32) if floats else None

    def drain_stats(self) -> EpisodeStats:
        """Episodes finished since the last call, by step and then by env."""
        return self._ledger.drain()

    def get_state(self) -> Mapping[str, Array]:
        """The seed to go on with: the state of such an environment cannot be saved."""
        return {"seed": np.array([next_seed(self._seed, SEEDS)], np.int64)}

    def _begin(self, seed: int) -> int:
        """Forget all episodes; the seed to hand over."""
        self._seed = seed % SEEDS
        self._returns[:], self._lengths[:] = 0, 0
        self._ledger.clear()
        return self._seed

    def _write_obs(self, obs: Any, rows: Array) -> None:
        """Write the observations of all envs.

        Raises:
            EnvStepError: They are not finite or of the wrong shape.
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
        """Write rewards and endings of all envs; which of them ended."""
        for name, value in (("reward", reward), ("terminated", terminated)):
            if np.shape(value) != (self.num_envs,):
                raise EnvStepError(
                    f"The vector environment returned {name} of shape {np.shape(value)} instead of "
                    f"({self.num_envs},)."
                )
        out.reward[...] = reward
        if not np.isfinite(out.reward).all():
            bad = int(np.flatnonzero(~np.isfinite(out.reward))[0])
            raise EnvStepError(f"Environment {bad} returned the reward {out.reward[bad]}.", bad)
        out.terminated[...] = terminated
        # An episode that ended by itself in its last allowed step has ended by itself.
        out.truncated[...] = np.asarray(truncated, np.bool_) & ~out.terminated
        ended: Bools = out.terminated | out.truncated
        return ended

    def _note(self, out: StepBuffers, stepped: Bools | None = None) -> None:
        """Count a step of all envs, or of those `stepped`, and record the episodes it ended."""
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
        self._ledger.note(rows, episode, which)
        self._returns[which], self._lengths[which] = 0, 0


def write_batch(
    space: Space[Any], observer: Observer, num_envs: int
) -> Callable[[Any, Array], None]:
    """How a batch of observations is written into rows (N, *obs)."""
    batched = batch_space(space, num_envs)
    if isinstance(space, spaces.Box):
        shape = (num_envs, *space.shape)
        flip = len(space.shape) == 3 and observer.spec.shape != space.shape

        def write_arrays(value: Any, rows: Array) -> None:
            array = np.asarray(value)
            if array.shape != shape:
                raise ValueError(f"observations of shape {array.shape} instead of {shape}")
            rows[...] = array.transpose(0, 3, 1, 2) if flip else array.reshape(rows.shape)

        return write_arrays

    def write(value: Any, rows: Array) -> None:
        for row, one in zip(rows, iterate(batched, value), strict=True):
            observer.write(one, row)

    return write


def read_batch(space: Space[Any]) -> Callable[[Array], Array]:
    """How actions (N,) or (N, D) become a batch of members of the space; always a copy."""
    actor = act(space, joint=False)
    if isinstance(space, spaces.Discrete):
        start = np.int64(space.start)
        return lambda actions: actions + start
    if isinstance(actor.spec, BoxSpec):
        assert isinstance(space, spaces.Box)
        low, high, shape, dtype = space.low, space.high, space.shape, space.dtype

        def read_box(actions: Array) -> Array:
            batch = actions.reshape(-1, *shape)
            return np.minimum(np.maximum(batch, low), high).astype(dtype, copy=False)

        return read_box
    assert isinstance(space, spaces.MultiDiscrete | spaces.MultiBinary)
    starts = space.start if isinstance(space, spaces.MultiDiscrete) else 0
    several, kind = space.shape, space.dtype

    def read_several(actions: Array) -> Array:
        return (actions.reshape(-1, *several) + starts).astype(kind, copy=False)

    return read_several
