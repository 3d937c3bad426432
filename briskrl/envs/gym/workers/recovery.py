"""Recovery from failures in workers: a clear error, or a new episode in place of the lost one.

The algorithm sees a lost episode as a truncated one. Recovery therefore remembers the last
observation of each env; a lost episode ends in a transition with reward 0 whose final observation
is that one. The seed of the new episode depends on the seed of the run, the env and the number of
failures so far.
"""

from __future__ import annotations

import logging

import numpy as np

from briskrl.core.errors import BriskError, ConfigError, EnvStepError, EnvWorkerError
from briskrl.core.types import Array, Bools, Floats, Ints, StepBuffers
from briskrl.envs.gym.respawn import ADVICE, CLOSE_STEPS, MAX_IN_A_ROW, MAX_NOTES
from briskrl.envs.gym.workers import protocol
from briskrl.envs.gym.workers.pool import Fault, WorkerPool

log = logging.getLogger(__name__)


class Recovery:
    """Handles faults of a pool by the policy `on_env_error`."""

    def __init__(self, pool: WorkerPool, name: str, *, policy: str, env_timeout_s: float) -> None:
        self.respawns = 0
        """Failures after which new episodes were started."""
        self.notes: list[str] = []
        """Messages about the first of them."""
        self.lost: Bools = np.zeros(pool.plan.num_envs, np.bool_)
        """(N,): idle envs whose episode was lost; their next step truncates it."""
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
        """Remember the observations of all envs, and the length and return of their episodes."""
        self._steps[:] = 0 if steps is None else steps
        self._ret[:] = 0.0 if returns is None else returns
        self.lost[:] = False
        self._copy_obs(slice(None))

    def remember(self, ids: Ints | None = None) -> None:
        """Remember the observations of the envs `ids` (default: all) after a step."""
        if not self._respawn:
            return
        rows = slice(None) if ids is None else ids
        step = self._pool.block.steps
        going = ~(step.terminated[rows] | step.truncated[rows])
        self._steps[rows] = (self._steps[rows] + 1) * going
        self._ret[rows] = (self._ret[rows] + step.reward[rows]) * going
        self._copy_obs(rows)

    def handle(self, fault: Fault) -> None:
        """Replace the env or worker that failed.

        Raises:
            BriskError: The policy is to stop, or too many failures came in a row.
        """
        error = self._error(fault)
        while True:
            self._check_policy(fault, error)
            self.respawns += 1
            self._add_note(str(error).splitlines()[0])
            single = self._is_single(fault)
            again = self._replace_env(fault) if single else self._replace_worker(fault.worker)
            if again is None:
                return
            fault, error = again, self._error(again)

    def error_of(self, failure: protocol.Failure) -> BriskError:
        """A worker's failure as an exception."""
        if failure.user_error:
            return ConfigError(failure.message)
        message = failure.message
        if "\nTraceback" not in message:
            message += f"\n\nIn its worker:\n{failure.traceback.rstrip()}"
        return EnvStepError(message, failure.index)

    def _add_note(self, what: str) -> None:
        log.warning("%s New episodes begin in its place (respawn %d).", what, self.respawns)
        if len(self.notes) < MAX_NOTES:
            self.notes.append(f"{what} New episodes began in its place.")

    def _is_single(self, fault: Fault) -> bool:
        """Whether one env failed in a step and its worker waits for a command."""
        waiting = self._pool.waiting(fault.worker)
        return fault.failure is not None and len(waiting) > 0 and waiting[0] == fault.failure.index

    def _check_policy(self, fault: Fault, error: BriskError) -> None:
        """Raise the error if training must stop."""
        worker = fault.worker
        if isinstance(error, ConfigError):
            self._pool.terminate(worker)
            raise error
        if not self._respawn:
            self._pool.terminate(worker)
            error.args = (f"{error}\n\n{ADVICE}",)
            raise error
        low, high = self._pool.bounds[worker]
        done = self._pool.block.finished[worker]
        close = done - self._failed_at[worker] < CLOSE_STEPS * (high - low)
        self._in_a_row[worker] = self._in_a_row[worker] + 1 if close else 1
        self._failed_at[worker] = done
        if self._in_a_row[worker] > MAX_IN_A_ROW:
            self._pool.terminate(worker)
            error.args = (f"{error}\n\nIt was the last of {MAX_IN_A_ROW + 1} failures in a row.",)
            raise error

    def _error(self, fault: Fault) -> BriskError:
        """The exception for a fault."""
        if fault.failure is not None:
            return self.error_of(fault.failure)
        low, high = self._pool.bounds[fault.worker]
        waiting = self._pool.waiting(fault.worker)
        these = f"environment {low}" if high == low + 1 else f"environments {low} to {high - 1}"
        at = f" while it stepped environment {waiting[0]}" if len(waiting) else ""
        if fault.stuck:
            seconds = self._pool.patience_s(fault.worker)
            setting = " (env_timeout)" if seconds == self._timeout_s else ""
            what = f"has made no progress for {seconds:g} s{setting}{at}"
        else:
            what = f"{self._pool.processes[fault.worker].describe_end()}{at}"
        message = f"The worker of {these} ({self._name}) {what}."
        return EnvWorkerError(message, tuple(range(low, high)))

    def _replace_env(self, fault: Fault) -> Fault | None:
        """Replace the one env that failed; returns another fault if that fails too."""
        assert fault.failure is not None
        worker, env = fault.worker, fault.failure.index
        self._truncate_lost(np.array([env]))
        low, _ = self._pool.bounds[worker]
        answer = self._pool.call(worker, "replace_env", env - low, self._fresh_seed(env))
        return answer if isinstance(answer, Fault) else None

    def _replace_worker(self, worker: int) -> Fault | None:
        """Replace a worker; returns another fault if that fails too."""
        pool = self._pool
        low, high = pool.bounds[worker]
        waiting, done = pool.waiting(worker), pool.untaken(worker)
        idle = np.setdiff1d(np.arange(low, high), np.concatenate([waiting, done]))
        pool.terminate(worker)
        self._truncate_lost(waiting)
        self._truncate_done(done)
        self._truncate_lost(idle)
        self.lost[idle] = True
        pool.replace(worker)
        answer = pool.answer(worker)
        if not isinstance(answer, Fault):
            answer = pool.call(worker, "start", self._fresh_seed(low))
        return answer if isinstance(answer, Fault) else None

    def _truncate_lost(self, ids: Ints) -> None:
        """Truncate the episodes of envs whose step is lost, with their last known observation."""
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

    def _truncate_done(self, ids: Ints) -> None:
        """Truncate the episodes of envs whose step is done, because no other step can follow."""
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

    def _copy_obs(self, rows: Ints | slice) -> None:
        step: StepBuffers = self._pool.block.steps
        self._obs[rows] = step.obs[rows]
        if self._mask is not None and step.mask is not None:
            self._mask[rows] = step.mask[rows]
