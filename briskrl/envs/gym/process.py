"""The process and async backends: Gymnasium environments stepped by worker processes."""

from __future__ import annotations

import time
import weakref
from collections.abc import Mapping, Sequence
from contextlib import suppress
from typing import Any

import numpy as np

from briskrl.core.cpu import usable_cores
from briskrl.core.errors import BriskError
from briskrl.core.spec import EnvSpec
from briskrl.core.types import Array, Bools, EpisodeStats, Ints, StepBuffers
from briskrl.envs.gym.config import GymConfig
from briskrl.envs.gym.env_factory import EnvFactory
from briskrl.envs.gym.episode_records import EpisodeRecords, EpisodeRows, copy_step
from briskrl.envs.gym.snapshot import EnvState, load_saved, pack_states
from briskrl.envs.gym.workers.pool import Fault, WorkerPool
from briskrl.envs.gym.workers.recovery import Recovery
from briskrl.envs.gym.workers.shared_memory import BlockPlan
from briskrl.envs.gym.workers.worker_process import WorkerLost
from briskrl.envs.validation import check_buffers

ASYNC_WORKERS = 16
"""Minimum number of async workers, if there are as many envs. More than cores, because environments
that wait for something need no core."""


class GymProcessEnv:
    """N Gymnasium environments in worker processes, stepped in lockstep or as they are ready.

    The trajectory of an environment does not depend on which of the two is used. While envs are
    busy (after `send`), only `recv`, `drain_stats`, `get_state` and `close` may be called.

    Args:
        factory: Makes each environment.
        num_envs: N.
        config: Number of workers, timeout, and what to do when an environment fails.
        spec: The result of `factory.spec()`.
        partial: Whether `send` and `recv` will be used; then there are more workers.
    """

    codec = None
    lockstep = False

    def __init__(
        self,
        factory: EnvFactory,
        num_envs: int,
        config: GymConfig,
        spec: EnvSpec,
        partial: bool = False,
    ) -> None:
        self.env_spec = spec
        self.num_envs = num_envs
        self._partial = partial
        self.min_ready = config.min_ready or -(-num_envs // 2)
        plan = BlockPlan(spec, num_envs, num_workers(num_envs, config.workers, partial=partial))
        self._pool = WorkerPool(factory, plan, env_timeout_s=config.env_timeout)
        self._own = self._pool.block.steps
        self._episode = self._pool.block.episodes
        self._recovery = Recovery(
            self._pool, factory.name, policy=config.on_env_error, env_timeout_s=config.env_timeout
        )
        self.notes = self._recovery.notes
        """Messages for the user about how the environments are run."""
        self._records = EpisodeRecords()
        self._checked: StepBuffers | None = None
        self._started = False
        self._broken: BriskError | None = None
        self._busy: Bools = np.zeros(num_envs, np.bool_)
        self._num_busy = 0
        self._ids: Ints = np.zeros(num_envs, np.int64)
        self._cut: list[int] = []
        """Busy envs whose episode was lost before the step; they are ready immediately."""
        # Workers end with the trainer anyway; closing lets environments release their resources.
        self._finalizer = weakref.finalize(self, WorkerPool.close, self._pool)
        try:
            self._start_workers()
        except BaseException:
            self.close()
            raise

    @property
    def num_workers(self) -> int:
        """Worker processes."""
        return self._pool.plan.num_workers

    @property
    def respawns(self) -> int:
        """Failures after which new episodes were started."""
        return self._recovery.respawns

    @property
    def worker_pids(self) -> tuple[int, ...]:
        """Process ids of the workers."""
        return tuple(process.popen.pid for process in self._pool.processes)

    @property
    def async_env(self) -> GymProcessEnv | None:
        """See VecEnv.async_env."""
        return self if self._partial else None

    def start(self, seed: int, out: StepBuffers) -> None:
        """Begin new episodes in all envs, env i with seed + i; writes obs and mask."""
        check_buffers(out, self._own)
        self._check_idle("start")
        self._recovery.seed = seed
        self._call_all("start", [(seed,)] * self.num_workers)
        self._recovery.begin()
        self._records.clear()
        self._started = True
        self.observe_into(out)

    def step_into(self, actions: Array, out: StepBuffers) -> None:
        """Step every env, writing all of `out`.

        Raises:
            EnvStepError: An environment raised, or returned invalid values.
            EnvWorkerError: A worker died, or one of its environments is stuck.
        """
        if out is not self._checked:
            check_buffers(out, self._own)
            self._checked = out
        self._check_idle("step_into")
        self._check_started()
        if self._recovery.lost.any():
            self.send(actions, np.arange(self.num_envs))
            self.recv(self.num_envs, None, out)
            return
        self._write_actions(actions)
        self._pool.push_all()
        self._num_busy = self.num_envs
        self._wait(self.num_envs, None)
        self._pool.take_all()
        self._num_busy = 0
        self._recovery.remember()
        ended = bool(self._own.terminated.any() or self._own.truncated.any())
        if ended:
            self._records.add(self._own, self._episode)
        copy_step(self._own, out, ended=ended)

    def send(self, actions: Array, ids: Ints) -> None:
        """Start a step in the envs `ids` (M,), with actions (M,) or (M, D)."""
        self._check_started()
        ids = self._mark_busy(ids)
        self._pool.block.actions[ids] = actions
        lost = self._recovery.lost
        if lost.any():
            self._cut += ids[lost[ids]].tolist()
            ids, given = ids[~lost[ids]], ids
            lost[given] = False
        self._pool.push(ids)

    def recv(self, min_ready: int, timeout: float | None, out: StepBuffers) -> Ints:
        """Wait until `min_ready` envs have finished their step, and write these to `out`.

        Fewer than `min_ready` are returned only after `timeout` seconds.

        Returns:
            The ids (M,) of all envs that are ready, in ascending order; their steps are in the
            first M rows of `out`. The caller owns the array.

        Raises:
            EnvStepError: An environment raised, or returned invalid values.
            EnvWorkerError: A worker died, or one of its environments is stuck.
        """
        if out is not self._checked:
            check_buffers(out, self._own)
            self._checked = out
        if not 0 <= min_ready <= self._num_busy:
            raise ValueError(
                f"min_ready is {min_ready}, but only {self._num_busy} envs are being stepped."
            )
        self._wait(min_ready - len(self._cut), timeout)
        count = self._pool.take(self._ids)
        for env in self._cut:
            self._ids[count] = env
            count += 1
        self._cut.clear()
        ids = np.sort(self._ids[:count])
        self._busy[ids] = False
        self._num_busy -= count
        self._recovery.remember(ids)
        self._copy_rows(ids, out)
        return ids

    def observe_into(self, out: StepBuffers) -> None:
        """Write the current obs and mask of the environments; none may be busy."""
        check_buffers(out, self._own)
        self._check_idle("observe_into")
        np.copyto(out.obs, self._own.obs)
        if out.mask is not None and self._own.mask is not None:
            np.copyto(out.mask, self._own.mask)

    def drain_stats(self) -> EpisodeStats:
        """Episodes finished since the last call, in the order in which they were received."""
        return self._records.drain()

    def get_state(self) -> Mapping[str, Array]:
        """A copy of the state, observation and mask of every environment.

        Busy envs finish their step first and their state is the one after it; the step can still be
        received here. After `set_state`, `observe_into` writes the observations.
        """
        self._wait(self._num_busy - len(self._cut), None)
        states = self._call_all("get_state", [()] * self.num_workers)
        state = {"envs": pack_states([text for part in states for text in part])}
        state["obs"] = self._own.obs.copy()
        if self._own.mask is not None:
            state["mask"] = self._own.mask.copy()
        return state

    def set_state(self, state: Mapping[str, Array]) -> None:
        """Restore a state that `get_state` returned, of any backend; no env may be busy.

        Without an exact state (`env_spec.exact_state`), new episodes begin; `observe_into` writes
        their first observations.

        Raises:
            InvalidStateError: It is not a state of these environments.
        """
        self._check_idle("set_state")
        texts = load_saved(state, self._own)
        # Before workers get them, where an error would count as a failure of the worker.
        states = [EnvState.from_text(text) for text in texts]
        self._call_all("set_state", [(texts[low:high],) for low, high in self._pool.bounds])
        self._recovery.begin(
            np.array([state.steps for state in states]),
            np.array([state.returns for state in states]),
        )
        self._records.clear()
        self._started = True

    def close(self) -> None:
        """End the workers within five seconds; may be called twice."""
        self._finalizer()

    def _write_actions(self, actions: Array) -> None:
        place = self._pool.block.actions
        if actions.shape != place.shape:
            raise ValueError(f"actions must have shape {place.shape}, not {actions.shape}.")
        np.copyto(place, actions, casting="same_kind")

    def _start_workers(self) -> None:
        for _, answer in self._pool.answers(range(self.num_workers)):
            if isinstance(answer, Fault):
                self._recovery.handle(answer)

    def _wait(self, count: int, timeout: float | None) -> None:
        """Wait for `count` envs that the pool steps, recovering from failures meanwhile."""
        if self._broken is not None:
            raise self._broken
        deadline = None if timeout is None else time.perf_counter() + timeout
        while (fault := self._pool.wait(count, deadline)) is not None:
            self._handle(fault)

    def _call_all(self, name: str, arguments: Sequence[tuple[Any, ...]]) -> list[Any]:
        """Call a method of every worker's `EnvGroup` in parallel; returns the results."""
        if self._broken is not None:
            raise self._broken
        answers: list[Any] = [None] * self.num_workers
        todo = list(range(self.num_workers))
        while todo:
            for worker in todo:
                with suppress(WorkerLost):
                    # If the worker is lost, reading its answer fails too.
                    self._pool.processes[worker].command(name, *arguments[worker])
            failed = []
            for worker, answer in self._pool.answers(todo):
                answers[worker] = answer
                if isinstance(answer, Fault):
                    failed.append(worker)
                    self._handle(answer)
            todo = failed
        return answers

    def _handle(self, fault: Fault) -> None:
        try:
            self._recovery.handle(fault)
        except BriskError as error:
            self._broken = error
            raise

    def _check_started(self) -> None:
        if not self._started:
            raise BriskError("Call start before the first step.")

    def _check_idle(self, name: str) -> None:
        if self._num_busy:
            raise RuntimeError(
                f"{self._num_busy} environments are being stepped; call recv before {name}."
            )

    def _mark_busy(self, ids: Ints) -> Ints:
        """Check the ids and mark them as busy; returns them as an array."""
        ids = np.asarray(ids, np.int64)
        if ids.ndim != 1 or (len(ids) and not 0 <= ids.min() <= ids.max() < self.num_envs):
            raise ValueError(f"ids must be numbers from 0 to {self.num_envs - 1}: {ids}")
        if self._num_busy == self.num_envs or self._busy[ids].any():
            raise ValueError(f"Some of the environments {ids} are being stepped; call recv first.")
        self._busy[ids] = True
        total = self._num_busy + len(ids)
        if np.count_nonzero(self._busy) != total:
            self._busy[ids] = False
            raise ValueError(f"ids must be distinct: {ids}")
        self._num_busy = total
        return ids

    def _copy_rows(self, ids: Ints, out: StepBuffers) -> None:
        """Copy the rows `ids` (M,) to the first rows of `out`."""
        own, count = self._own, len(ids)
        for name in ("obs", "reward", "terminated", "truncated", "mask"):
            _gather(own, out, name, ids)
        head = StepBuffers(
            obs=out.obs[:count],
            reward=out.reward[:count],
            terminated=out.terminated[:count],
            truncated=out.truncated[:count],
            final_obs=out.final_obs[:count],
        )
        if head.terminated.any() or head.truncated.any():
            _gather(own, out, "final_obs", ids)
            _gather(own, out, "final_mask", ids)
            all_rows = self._episode
            rows = EpisodeRows(
                returns=all_rows.returns[ids], steps=all_rows.steps[ids], won=all_rows.won[ids]
            )
            self._records.add(head, rows, ids)


def _gather(own: StepBuffers, out: StepBuffers, name: str, ids: Ints) -> None:
    source, target = getattr(own, name), getattr(out, name)
    if target is not None:
        # The indices are valid; with mode="clip" NumPy writes without a temporary buffer.
        np.take(source, ids, axis=0, out=target[: len(ids)], mode="clip")


def num_workers(num_envs: int, wanted: int, *, partial: bool) -> int:
    """Number of workers for `num_envs` envs; with `wanted` 0 it depends on the number of cores."""
    if wanted == 0:
        wanted = max(2 * usable_cores(), ASYNC_WORKERS) if partial else usable_cores()
    return min(num_envs, wanted)
