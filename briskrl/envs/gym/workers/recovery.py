"""What happens when an environment in a worker fails: a clear error, or a new episode in its place.

Whoever trains must not notice more than a truncated episode. So what was last shown of each env is
kept, and an episode that is lost ends in a transition without reward whose final observation is the
last one known. Seeds of the new episodes derive from the seed of the run, the env and how many
times something failed before.
"""

from __future__ import annotations

import logging

import numpy as np

from briskrl.core.errors import BriskError, ConfigError, EnvStepError, EnvWorkerError
from briskrl.core.types import Array, Bools, Floats, Ints, StepBuffers
from briskrl.envs.gym.workers import protocol as wire
from briskrl.envs.gym.workers.pool import Fault, WorkerPool
from briskrl.envs.gym.workers.worker_process import WorkerLost

MOST_IN_A_ROW = 10
"""Failures of one worker after which it is given up, if they are close to each other."""
CLOSE_STEPS = 10
"""Steps per env of a worker between two failures that count as close to each other."""

MOST_NOTES = 10
"""Failures that are told in words; all are counted."""
ADVICE = "With --on-env-error respawn, training would go on with new episodes."

log = logging.getLogger(__name__)


class Recovery:
    """Answers faults of a pool by the policy `on_env_error`."""

    def __init__(self, pool: WorkerPool, name: str, *, policy: str, env_timeout_s: float) -> None:
        self.respawns = 0
        """Failures that were answered with new episodes."""
        self.notes: list[str] = []
        """The first of them in words."""
        self.lost: Bools = np.zeros(pool.plan.num_envs, np.bool_)
        """(N,): envs at rest whose episode was lost; their next step ends it."""
        self.seed = 0
        self._pool = pool
        self._name = name
        self._timeout_s = env_timeout_s
        self._respawn = policy == "respawn"
        self._in_a_row = [0] * pool.plan.num_workers
        self._failed_at = [0] * pool.plan.num_workers
        steps = pool.block.steps
        self._obs: Array = np.zeros_like(steps.obs)
        self._mask = None if steps.mask is None else np.zeros_like(steps.mask)
        self._ret = np.zeros(pool.plan.num_envs, np.float64)
        self._steps = np.zeros(pool.plan.num_envs, np.int64)

    def begin(self, steps: Ints | None = None, returns: Floats | None = None) -> None:
        """Keep what all envs show as their episodes begin, or go on with so many steps."""
        self._steps[:] = 0 if steps is None else steps
        self._ret[:] = 0.0 if returns is None else returns
        self.lost[:] = False
        self._keep(slice(None))

    def keep(self, ids: Ints | None = None) -> None:
        """Keep what the envs `ids` show after a step that is being handed over; all by default."""
        if not self._respawn:
            return
        rows = slice(None) if ids is None else ids
        step = self._pool.block.steps
        going = ~(step.terminated[rows] | step.truncated[rows])
        self._steps[rows] = (self._steps[rows] + 1) * going
        self._ret[rows] = (self._ret[rows] + step.reward[rows]) * going
        self._keep(rows)

    def treat(self, fault: Fault) -> None:
        """Make good what can be made good.

        Raises:
            BriskError: The policy is to stop, or too much has failed in a row.
        """
        error = self._error(fault)
        while True:
            self._refuse(fault, error)
            self.respawns += 1
            self._tell(str(error).splitlines()[0])
            again = self._revive(fault) if self._is_single(fault) else self._replace(fault.worker)
            if again is None:
                return
            fault, error = again, self._error(again)

    def error_of(self, failure: wire.Failure) -> BriskError:
        """What a worker said went wrong, as an error."""
        if failure.user_error:
            return ConfigError(failure.message)
        told = f"{failure.message}\n\nIn its worker:\n{failure.traceback.rstrip()}"
        return EnvStepError(told, failure.index)

    def _tell(self, what: str) -> None:
        log.warning("%s New episodes begin in its place (respawn %d).", what, self.respawns)
        if len(self.notes) < MOST_NOTES:
            self.notes.append(f"{what} New episodes began in its place.")

    def _is_single(self, fault: Fault) -> bool:
        """Whether one env failed in a step and its worker waits for what to do."""
        waiting = self._pool.waiting(fault.worker)
        return fault.failure is not None and len(waiting) > 0 and waiting[0] == fault.failure.index

    def _refuse(self, fault: Fault, error: BriskError) -> None:
        """Raise if this is the end."""
        worker = fault.worker
        if isinstance(error, ConfigError):
            self._pool.bury(worker)
            raise error
        if not self._respawn:
            self._pool.bury(worker)
            error.args = (f"{error}\n\n{ADVICE}",)
            raise error
        low, high = self._pool.bounds[worker]
        done = self._pool.block.finished[worker]
        close = done - self._failed_at[worker] < CLOSE_STEPS * (high - low)
        self._in_a_row[worker] = self._in_a_row[worker] + 1 if close else 1
        self._failed_at[worker] = done
        if self._in_a_row[worker] > MOST_IN_A_ROW:
            self._pool.bury(worker)
            error.args = (f"{error}\n\nIt was the last of {MOST_IN_A_ROW + 1} in a row.",)
            raise error

    def _error(self, fault: Fault) -> BriskError:
        """The fault in words."""
        if fault.failure is not None:
            return self.error_of(fault.failure)
        low, high = self._pool.bounds[fault.worker]
        waiting = self._pool.waiting(fault.worker)
        these = f"environment {low}" if high == low + 1 else f"environments {low} to {high - 1}"
        at = f" while it stepped environment {waiting[0]}" if len(waiting) else ""
        if fault.stuck:
            what = f"has not got on for {self._timeout_s:g} s (env_timeout){at}"
        else:
            what = f"{self._pool.handles[fault.worker].how_it_ended()}{at}"
        told = f"The worker of {these} (gym:{self._name}) {what}."
        return EnvWorkerError(told, tuple(range(low, high)))

    def _revive(self, fault: Fault) -> Fault | None:
        """Replace the one env that failed; another fault if that fails too."""
        assert fault.failure is not None
        worker, env = fault.worker, fault.failure.index
        self._cut_off(np.array([env]))
        low, _ = self._pool.bounds[worker]
        try:
            answer = self._pool.ask(worker, "revive", env - low, self._fresh_seed(env))
        except WorkerLost as lost:
            return Fault(worker, stuck=lost.stuck)
        return Fault(worker, answer) if isinstance(answer, wire.Failure) else None

    def _replace(self, worker: int) -> Fault | None:
        """Start another worker in place of one; another fault if that fails too."""
        pool = self._pool
        low, high = pool.bounds[worker]
        waiting, done = pool.waiting(worker), pool.untaken(worker)
        resting = np.setdiff1d(np.arange(low, high), np.concatenate([waiting, done]))
        pool.bury(worker)
        self._cut_off(waiting)
        self._cut_short(done)
        self._cut_off(resting)
        self.lost[resting] = True
        pool.replace(worker)
        try:
            answer = pool.boot(worker)
            if answer is None:
                answer = pool.ask(worker, "start", self._fresh_seed(low))
        except WorkerLost as lost:
            return Fault(worker, stuck=lost.stuck)
        return Fault(worker, answer) if isinstance(answer, wire.Failure) else None

    def _cut_off(self, ids: Ints) -> None:
        """End the episodes of envs whose step is lost, with what was last known of them."""
        step, episodes = self._pool.block.steps, self._pool.block.episodes
        step.reward[ids] = 0.0
        step.terminated[ids] = False
        step.truncated[ids] = True
        step.final_obs[ids] = self._obs[ids]
        if step.final_mask is not None and self._mask is not None:
            step.final_mask[ids] = self._mask[ids]
        episodes.returns[ids] = self._ret[ids]
        episodes.steps[ids] = self._steps[ids] + 1
        episodes.won[ids] = False

    def _cut_short(self, ids: Ints) -> None:
        """End the episodes of envs whose last step is known but will have no other after it."""
        step, episodes = self._pool.block.steps, self._pool.block.episodes
        ids = ids[~(step.terminated[ids] | step.truncated[ids])]
        step.truncated[ids] = True
        step.final_obs[ids] = step.obs[ids]
        if step.final_mask is not None and step.mask is not None:
            step.final_mask[ids] = step.mask[ids]
        episodes.returns[ids] = self._ret[ids] + step.reward[ids]
        episodes.steps[ids] = self._steps[ids] + 1
        episodes.won[ids] = False

    def _fresh_seed(self, env: int) -> int:
        words = np.random.SeedSequence([self.seed % 2**64, env, self.respawns])
        return int(words.generate_state(1, np.uint64)[0])

    def _keep(self, rows: Ints | slice) -> None:
        step: StepBuffers = self._pool.block.steps
        self._obs[rows] = step.obs[rows]
        if self._mask is not None and step.mask is not None:
            self._mask[rows] = step.mask[rows]
