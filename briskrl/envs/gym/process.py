"""Gymnasium environments stepped by worker processes, all together or whichever is ready first."""

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
from briskrl.envs.gym.env_factory import EnvRecipe
from briskrl.envs.gym.env_group import EpisodeRows
from briskrl.envs.gym.env_state import Record
from briskrl.envs.gym.episode_records import Ledger, check_buffers, hand_over, pack, unpack
from briskrl.envs.gym.workers import protocol as wire
from briskrl.envs.gym.workers.pool import Fault, WorkerPool
from briskrl.envs.gym.workers.recovery import Recovery
from briskrl.envs.gym.workers.shared_memory import Plan
from briskrl.envs.gym.workers.worker_process import WorkerLost

ASYNC_WORKERS = 16
"""Workers of a partial batch at the least, if there are as many envs: more than cores, because
environments that wait for something need none."""


class GymProcessEnv:
    """N environments of one recipe in worker processes, stepped together or as they are ready.

    A trajectory is the same whichever way it is stepped. While envs are at work (after `send`),
    only `recv`, `drain_stats`, `get_state` and `close` may be called.

    Args:
        recipe: How each of them is made.
        num_envs: N.
        config: Number of workers, patience, and what to do when an environment fails.
        spec: What `recipe.spec()` gave.
        partial: Whether `send` and `recv` will be used, which more workers are good for.
    """

    def __init__(
        self,
        recipe: EnvRecipe,
        num_envs: int,
        config: GymConfig,
        spec: EnvSpec,
        partial: bool = False,
    ) -> None:
        self.env_spec = spec
        self.num_envs = num_envs
        self.partial = partial
        self.min_ready = config.min_ready or -(-num_envs // 2)
        plan = Plan(spec, num_envs, num_workers(num_envs, config.workers, partial=partial))
        self._pool = WorkerPool(recipe, plan, env_timeout_s=config.env_timeout)
        self._own = self._pool.block.steps
        self._episode = self._pool.block.episodes
        self._recovery = Recovery(
            self._pool, recipe.id, policy=config.on_env_error, env_timeout_s=config.env_timeout
        )
        self.notes = self._recovery.notes
        """Sentences about how the environments are run, to be shown once."""
        self._ledger = Ledger()
        self._checked: StepBuffers | None = None
        self._started = False
        self._broken: BriskError | None = None
        self._at_work: Bools = np.zeros(num_envs, np.bool_)
        self._num_at_work = 0
        self._ids: Ints = np.zeros(num_envs, np.int64)
        self._cut: list[int] = []
        """Envs at work whose step ends an episode that was lost before: ready at once."""
        # Workers end with the trainer anyway; closing lets environments close what they hold.
        self._finalizer = weakref.finalize(self, WorkerPool.close, self._pool)
        try:
            self._boot()
        except BaseException:
            self.close()
            raise

    @property
    def num_workers(self) -> int:
        """Worker processes."""
        return self._pool.plan.num_workers

    @property
    def respawns(self) -> int:
        """Failures that were answered with new episodes."""
        return self._recovery.respawns

    @property
    def worker_pids(self) -> tuple[int, ...]:
        """Process ids of the workers."""
        return tuple(handle.process.pid for handle in self._pool.handles)

    def start(self, seed: int, out: StepBuffers) -> None:
        """Begin new episodes everywhere, env i with seed + i; writes obs and mask."""
        check_buffers(out, self._own)
        self._need_rest("start")
        self._recovery.seed = seed
        self._ask_all("start", [(seed,)] * self.num_workers)
        self._recovery.begin()
        self._ledger.clear()
        self._started = True
        self.observe_into(out)

    def step_into(self, actions: Array, out: StepBuffers) -> None:
        """Advance every env by one transition, writing all of `out`.

        Raises:
            EnvStepError: An environment raised, or returned what cannot be learnt from.
            EnvWorkerError: A worker died, or one of its environments is stuck.
        """
        if out is not self._checked:
            check_buffers(out, self._own)
            self._checked = out
        self._need_rest("step_into")
        self._need_start()
        if self._recovery.lost.any():
            self.send(actions, np.arange(self.num_envs))
            self.recv(self.num_envs, None, out)
            return
        self._write_actions(actions)
        self._pool.push_all()
        self._num_at_work = self.num_envs
        self._wait(self.num_envs, None)
        self._pool.take_all()
        self._num_at_work = 0
        self._recovery.keep()
        ended = bool(self._own.terminated.any() or self._own.truncated.any())
        if ended:
            self._ledger.note(self._own, self._episode)
        hand_over(self._own, out, ended=ended)

    def send(self, actions: Array, ids: Ints) -> None:
        """Start a step in the envs `ids` (M,), with actions (M,) or (M, D)."""
        self._need_start()
        ids = self._put_to_work(ids)
        self._pool.block.actions[ids] = actions
        lost = self._recovery.lost
        if lost.any():
            self._cut += ids[lost[ids]].tolist()
            ids, given = ids[~lost[ids]], ids
            lost[given] = False
        self._pool.push(ids)

    def recv(self, min_ready: int, timeout: float | None, out: StepBuffers) -> Ints:
        """Wait until `min_ready` envs have finished; fills the first rows of `out`, returns ids.

        All envs that are ready are handed over, in ascending order; fewer than `min_ready` only if
        `timeout` seconds have passed. The returned array is the caller's.

        Raises:
            EnvStepError: An environment raised, or returned what cannot be learnt from.
            EnvWorkerError: A worker died, or one of its environments is stuck.
        """
        if out is not self._checked:
            check_buffers(out, self._own)
            self._checked = out
        if not 0 <= min_ready <= self._num_at_work:
            raise ValueError(
                f"min_ready is {min_ready}, but only {self._num_at_work} environments are at work."
            )
        self._wait(min_ready - len(self._cut), timeout)
        count = self._pool.take(self._ids)
        for env in self._cut:
            self._ids[count] = env
            count += 1
        self._cut.clear()
        ids = np.sort(self._ids[:count])
        self._at_work[ids] = False
        self._num_at_work -= count
        self._recovery.keep(ids)
        self._hand_over_rows(ids, out)
        return ids

    def observe_into(self, out: StepBuffers) -> None:
        """Write obs and mask of the environments as they stand; none may be at work."""
        check_buffers(out, self._own)
        self._need_rest("observe_into")
        np.copyto(out.obs, self._own.obs)
        if out.mask is not None and self._own.mask is not None:
            np.copyto(out.mask, self._own.mask)

    def drain_stats(self) -> EpisodeStats:
        """Episodes finished since the last call, in the order they were handed over."""
        return self._ledger.drain()

    def get_state(self) -> Mapping[str, Array]:
        """The state of every environment, and what it shows; copies.

        Envs at work are waited for, and their state is the one after the step; the step itself is
        still to be received. Whoever continues from the state asks `observe_into`.
        """
        self._wait(self._num_at_work - len(self._cut), None)
        records = self._ask_all("get_state", [()] * self.num_workers)
        state = {"envs": pack([text for part in records for text in part])}
        state["obs"] = self._own.obs.copy()
        if self._own.mask is not None:
            state["mask"] = self._own.mask.copy()
        return state

    def set_state(self, state: Mapping[str, Array]) -> None:
        """Continue from what get_state gave, here or in another backend; none may be at work.

        Without an exact state (`env_spec.exact_state`) new episodes begin; `observe_into` tells
        their first observations.
        """
        self._need_rest("set_state")
        np.copyto(self._own.obs, state["obs"])
        if self._own.mask is not None:
            np.copyto(self._own.mask, state["mask"])
        records = unpack(state["envs"])
        self._ask_all("set_state", [(records[low:high],) for low, high in self._pool.bounds])
        told = [Record.of_text(text) for text in records]
        self._recovery.begin(
            np.array([record.steps for record in told]),
            np.array([record.returns for record in told]),
        )
        self._ledger.clear()
        self._started = True

    def close(self) -> None:
        """End the workers within five seconds whatever they do; may be called twice."""
        self._finalizer()

    def _write_actions(self, actions: Array) -> None:
        place = self._pool.block.actions
        if actions.shape != place.shape:
            raise ValueError(f"actions must have shape {place.shape}, not {actions.shape}.")
        np.copyto(place, actions, casting="same_kind")

    def _boot(self) -> None:
        for worker in range(self.num_workers):
            fault = None
            try:
                failure = self._pool.boot(worker)
                fault = Fault(worker, failure) if failure is not None else None
            except WorkerLost as lost:
                fault = Fault(worker, stuck=lost.stuck)
            if fault is not None:
                self._recovery.treat(fault)

    def _wait(self, count: int, timeout: float | None) -> None:
        """Wait for `count` envs that the pool steps, making good what goes wrong meanwhile."""
        if self._broken is not None:
            raise self._broken
        deadline = None if timeout is None else time.perf_counter() + timeout
        while (fault := self._pool.wait(count, deadline)) is not None:
            self._treat(fault)

    def _ask_all(self, name: str, arguments: Sequence[tuple[Any, ...]]) -> list[Any]:
        """Call a method of every worker's host, all at once; their answers."""
        if self._broken is not None:
            raise self._broken
        answers: list[Any] = [None] * self.num_workers
        todo = list(range(self.num_workers))
        while todo:
            faults = []
            for worker in todo:
                with suppress(WorkerLost):
                    # A worker that is lost gives no answer either.
                    self._pool.handles[worker].command(name, *arguments[worker])
            for worker in todo:
                try:
                    answers[worker] = self._pool.answer(worker)
                except WorkerLost as lost:
                    faults.append(Fault(worker, stuck=lost.stuck))
                    continue
                if isinstance(answers[worker], wire.Failure):
                    faults.append(Fault(worker, answers[worker]))
            for fault in faults:
                self._treat(fault)
            todo = [fault.worker for fault in faults]
        return answers

    def _treat(self, fault: Fault) -> None:
        try:
            self._recovery.treat(fault)
        except BriskError as error:
            self._broken = error
            raise

    def _need_start(self) -> None:
        if not self._started:
            raise BriskError("Call start before the first step.")

    def _need_rest(self, name: str) -> None:
        if self._num_at_work:
            raise RuntimeError(
                f"{self._num_at_work} environments are at work: receive them before {name}."
            )

    def _put_to_work(self, ids: Ints) -> Ints:
        """The ids as a checked array, marked as being at work."""
        ids = np.asarray(ids, np.int64)
        if ids.ndim != 1 or (len(ids) and not 0 <= ids.min() <= ids.max() < self.num_envs):
            raise ValueError(f"ids must be numbers from 0 to {self.num_envs - 1}: {ids}")
        if self._num_at_work == self.num_envs or self._at_work[ids].any():
            raise ValueError(f"Some of the environments {ids} are at work: receive them first.")
        self._at_work[ids] = True
        total = self._num_at_work + len(ids)
        if np.count_nonzero(self._at_work) != total:
            self._at_work[ids] = False
            raise ValueError(f"ids must be different from each other: {ids}")
        self._num_at_work = total
        return ids

    def _hand_over_rows(self, ids: Ints, out: StepBuffers) -> None:
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
            told = self._episode
            rows = EpisodeRows(returns=told.returns[ids], steps=told.steps[ids], won=told.won[ids])
            self._ledger.note(head, rows, ids)


def _gather(own: StepBuffers, out: StepBuffers, name: str, ids: Ints) -> None:
    source, target = getattr(own, name), getattr(out, name)
    if target is not None:
        # Indices are known to be good; clipping them spares NumPy a buffer.
        np.take(source, ids, axis=0, out=target[: len(ids)], mode="clip")


def num_workers(num_envs: int, wanted: int, *, partial: bool) -> int:
    """How many workers step so many envs; `wanted` is 0 for a choice by the number of cores."""
    if wanted == 0:
        wanted = max(2 * usable_cores(), ASYNC_WORKERS) if partial else usable_cores()
    return min(num_envs, wanted)
