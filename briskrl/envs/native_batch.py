"""A batch of compiled environments as trainers use it: stepping into buffers that the caller owns.

`NativeBatch` holds the memory of all envs in one array and runs the family's compiled step loop
over it, on several threads where that pays. `native.NativeVecEnv` adds Gymnasium's interface.
"""

from __future__ import annotations

import os
import weakref
from abc import abstractmethod
from collections.abc import Mapping
from functools import partial
from itertools import pairwise
from typing import NamedTuple, Protocol

import gymnasium
import numpy as np
from numpy.typing import NDArray

from briskrl.core.spec import DiscreteSpec, EnvSpec, SubsetSpec
from briskrl.core.state_checks import check_range, loaded
from briskrl.core.types import (
    Array,
    Bools,
    EpisodeStats,
    Ints,
    ObsCodec,
    StepBuffers,
    action_layout,
)
from briskrl.envs.episode_log import EpisodeLog
from briskrl.envs.kernels.step_loop import StepKernels, StepMode
from briskrl.envs.seeding import Seeds, seed_rows
from briskrl.envs.validation import check_buffers
from briskrl.parallel.kernels.queue import new_queue
from briskrl.parallel.thread_pool import ThreadPool

SMALLEST_PARALLEL_BATCH = 1000
"""With fewer envs, waking threads costs more than they save."""
CHUNKS_PER_LANE = 16
"""Threads take chunks of envs one after another, so that a disturbed core does fewer of them."""
CAN_SHARE = hasattr(os, "sched_yield")
"""Whether compiled code can yield its core while it waits."""
SPINS = 300
"""Checks for work before a thread sleeps, some hundred microseconds in all: waking it can take
longer than a step."""


class BatchMemory(NamedTuple):
    """The memory that a family needs for its envs."""

    row_words: int
    """64-bit words per env; the first one is its random state."""
    scratch_words: int
    """Words behind the rows."""
    params: NDArray[np.int64]
    """Settings, as the kernels read them."""


class NativeBatch:
    """N compiled environments in one state array; the trainer's half of NativeVecEnv.

    A family declares `kernels` and `state_name` and implements `_lay_out`.
    """

    kernels: StepKernels
    state_name: str
    """Name of the array in `get_state`."""
    smallest_parallel_batch = SMALLEST_PARALLEL_BATCH
    """Number of envs from which on threads are used; lower where a step is much work."""
    num_envs: int

    _params: NDArray[np.int64]
    _state: NDArray[np.uint64]
    """Memory of all envs and scratch space, flat."""
    _rows: NDArray[np.uint64]
    """(N, row_words): memory of each env, a view of `_state`; `_i16`, `_i32` and `_f64` are views
    of the same memory."""

    def __init__(self, num_envs: int, env_spec: EnvSpec, mode: StepMode, threads: int) -> None:
        if num_envs < 1:
            raise ValueError(f"num_envs must be 1 or more, not {num_envs}.")
        assert isinstance(env_spec.action, DiscreteSpec | SubsetSpec)
        self.num_envs = num_envs
        self._env_spec = env_spec
        # A plain number: Numba would compile another version for a member of an enum.
        self._mode = mode.value
        parallel = num_envs >= self.smallest_parallel_batch and CAN_SHARE
        self._lanes = threads if parallel else 1
        chunks = self._lanes * CHUNKS_PER_LANE if self._lanes > 1 else 1
        cuts = [num_envs * chunk // chunks for chunk in range(chunks + 1)]
        self._bounds = list(pairwise(cuts))
        self._log = EpisodeLog(self._bounds)
        self._threads: StepThreads | None = None
        self._own = StepBuffers.allocate(env_spec, num_envs)
        self._actions = np.zeros((num_envs, *action_layout(env_spec)[0]), np.int64)
        self._checked: StepBuffers | None = None
        self._seeded = np.zeros(num_envs, np.bool_)
        self._started = False
        self.notes: list[str] = []
        """Sentences about how the environments are run, to be shown once."""
        row_words, scratch_words, self._params = self._lay_out(chunks)
        used = num_envs * row_words
        self._state = np.zeros(used + scratch_words, np.uint64)
        self._rows = self._state[:used].reshape(num_envs, row_words)
        self._i16, self._i32 = self._rows.view(np.int16), self._rows.view(np.int32)
        self._f64 = self._rows.view(np.float64)

    @abstractmethod
    def _lay_out(self, chunks: int) -> BatchMemory:
        """The memory of `num_envs` envs that are stepped in this number of chunks."""

    @abstractmethod
    def _check_rows(self, rows: NDArray[np.uint64]) -> None:
        """Check a loaded state (N, row_words).

        Raises:
            InvalidStateError: Kernels could index out of bounds with it.
        """

    def _write_mask(self, out: Bools, *, final: bool) -> None:
        """Write the legal actions (N, A), or those at the end of ended episodes."""
        out[...] = True

    def _write_code(self, out: Array) -> None:
        """Write the observation codes (N, W), if the family has any."""

    @property
    def _random_states(self) -> NDArray[np.uint64]:
        """The random state of each env, (N,), writable."""
        return self._rows[:, 0]

    @property
    def _ended(self) -> NDArray[np.int16]:
        """Non-zero where an episode has ended and no new one has begun, (N,), writable."""
        return self._i16[:, self.kernels.ended]

    @property
    def codec(self) -> ObsCodec | None:
        """See VecEnv.codec."""
        return None

    @property
    def async_env(self) -> None:
        """All envs step together."""
        return None

    @property
    def env_spec(self) -> EnvSpec:
        """Shapes, dtypes and promises of one environment."""
        return self._env_spec

    def start(self, seed: int, out: StepBuffers) -> None:
        """Begin new episodes everywhere, env i with seed + i; writes obs and mask."""
        self._check(out)
        self._seed(seed, np.ones(self.num_envs, np.bool_))
        self._log.clear()
        self._ended[:] = 1
        self._begin(out)

    def step_into(self, actions: Array, out: StepBuffers) -> None:
        """Advance every env by one transition, writing all of `out`.

        Actions (N,) are not checked: those out of range have no defined effect.
        """
        if out is not self._checked:
            if not self._started:
                raise gymnasium.error.ResetNeeded("Call start or reset before the first step.")
            self._check(out)
        if actions.dtype != np.int64 or not actions.flags.carray:
            # Numba would compile another version for another dtype or a read-only array.
            np.copyto(self._actions, actions, casting="unsafe")
            actions = self._actions
        self._run(actions, out, self._mode)
        self._write_extras(out)
        if out.final_mask is not None:
            self._write_mask(out.final_mask, final=True)

    def observe_into(self, out: StepBuffers) -> None:
        """Write the present obs, mask and code, derived from the state alone."""
        self._check(out)
        self._run(self._actions, out, StepMode.OBSERVE.value)
        self._write_extras(out)

    def drain_stats(self) -> EpisodeStats:
        """Episodes finished since the last call, by step and then by env."""
        return self._log.drain()

    def get_state(self) -> Mapping[str, Array]:
        """All envs as one array (N, row_words), random states included; a copy."""
        return {self.state_name: self._rows.copy()}

    def set_state(self, state: Mapping[str, Array]) -> None:
        """Continue from what get_state returned; drops the records of other episodes.

        Raises:
            InvalidStateError: It is a state of other settings or holds impossible numbers; the envs
                are as they were.
        """
        rows = np.ascontiguousarray(loaded(state, self.state_name, self._rows))
        ended = rows.view(np.int16)[:, self.kernels.ended]
        check_range(f"{self.state_name}: ended", ended, 0, 1)
        self._check_rows(rows)
        self._rows[:] = rows
        self._seeded[:] = True
        self._started = True
        self._log.clear()
        self._rebuild()

    def close_extras(self, **kwargs: object) -> None:
        """Stop the threads."""
        if self._threads is not None:
            self._threads.stop()

    def _seed(self, seed: Seeds, which: Bools) -> None:
        """Give the envs `which` (N,) new random states where there is a seed."""
        seed_rows(self._random_states, self._seeded, seed, which)

    def _begin(self, out: StepBuffers) -> None:
        """Begin new episodes where the ended flag is set."""
        self._run(self._actions, out, StepMode.RESET.value)
        self._started = True
        self._write_extras(out)

    def _rebuild(self) -> None:
        """Recompute what is derived from the state, which may come from other settings."""
        self._run(self._actions, self._own, StepMode.OBSERVE.value)

    def _write_extras(self, out: StepBuffers) -> None:
        if out.mask is not None:
            self._write_mask(out.mask, final=False)
        if out.code is not None:
            self._write_code(out.code)

    def _check(self, out: StepBuffers) -> None:
        """Refuse buffers that kernels cannot write to."""
        check_buffers(out, self._own)
        self._checked = out

    def _run(self, actions: Ints, out: StepBuffers, mode: int) -> None:
        """Run one compiled pass over all envs."""
        if self._lanes == 1:
            self.kernels.step(
                self._params,
                self._state,
                self._log.rows,
                actions,
                out.obs,
                out.reward,
                out.terminated,
                out.truncated,
                out.final_obs,
                0,
                self.num_envs,
                0,
                mode,
            )
            return
        if self._threads is None:
            self._threads = self._start_threads()
        self._threads.run(actions, out, mode)

    def _start_threads(self) -> StepThreads:
        queue = new_queue(self._lanes, len(self._bounds))
        bounds = np.array([0, *(high for _, high in self._bounds)], np.int64)
        # Bound to arrays and not to this object, which threads must not keep alive.
        parallel_step = partial(
            self.kernels.parallel_step, self._params, self._state, self._log.rows, queue, bounds
        )
        threads = StepThreads(self._lanes, parallel_step, self._actions, self._own)
        weakref.finalize(self, threads.stop)
        return threads


class ParallelStep(Protocol):
    """A family's `parallel_step` kernel, bound to its memory, queue and bounds."""

    def __call__(
        self,
        lane: int,
        mode: int,
        spins: int,
        actions: Array,
        obs: Array,
        reward: Array,
        terminated: Array,
        truncated: Array,
        final_obs: Array,
    ) -> None:
        """Lane 0: post a pass and finish it with the others. Others: help for a while."""
        ...


class StepThreads:
    """Runs passes in the calling thread and in threads of a pool.

    A thread that has taken no chunk is not waited for, so a sleeping or descheduled thread delays
    no pass.

    Args:
        num_lanes: Threads, including the caller.
        parallel_step: What they run.
        actions: An array with the dtype and shape of later passes.
        out: Buffers with the dtypes and shapes of later passes.
    """

    def __init__(
        self, num_lanes: int, parallel_step: ParallelStep, actions: Ints, out: StepBuffers
    ) -> None:
        self._parallel_step = parallel_step

        def work(lane: int) -> None:
            _take_part(parallel_step, lane, 0, actions, out)

        self._pool = ThreadPool(num_lanes - 1, work, name="brisk-lane")

    def run(self, actions: Ints, out: StepBuffers, mode: int) -> None:
        """Run one pass over all chunks."""
        self._pool.wake()
        _take_part(self._parallel_step, 0, mode, actions, out)

    def stop(self) -> None:
        """End the threads; may be called twice, and passes can still run afterwards."""
        self._pool.stop()


def _take_part(
    parallel_step: ParallelStep, lane: int, mode: int, actions: Ints, out: StepBuffers
) -> None:
    parallel_step(
        lane,
        mode,
        SPINS,
        actions,
        out.obs,
        out.reward,
        out.terminated,
        out.truncated,
        out.final_obs,
    )
