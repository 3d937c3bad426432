"""Runs the jobs of a run, and keeps its ledger and tables.

Every event is in the ledger before anything follows from it, so a driver that is killed at any
moment is continued by another one.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence

from briskrl.cluster.executor import Executor
from briskrl.cluster.job import (
    JobCancelled,
    JobDone,
    JobEvent,
    JobFailed,
    JobProgress,
    JobRetried,
    JobStarted,
)
from briskrl.core.errors import BriskError
from briskrl.training.reporter import StopSignal
from briskrl.workflows.run.dispatch import (
    BASE,
    CLOSING,
    JOINT,
    PLAIN,
    SWEEP,
    base_record,
    evaluation_record,
    finetune_records,
    job_of,
    next_records,
)
from briskrl.workflows.run.folder import RunInfo
from briskrl.workflows.run.joint import joint_episodes, sweep_ids
from briskrl.workflows.run.ledger import JobRecord, Ledger, Stopped
from briskrl.workflows.run.recommendation import BEST, best_scored
from briskrl.workflows.run.reporter import WorkflowReporter
from briskrl.workflows.run.run_tables import RunTables

POLL_S = 0.25
"""How often the driver looks for signals."""
MOST_FAILURES = 3
"""Failed jobs in a row that end a run."""


class Driver:
    """Runs what is left of a run.

    Args:
        info: The run.
        ledger: Its ledger, with the events so far.
        tables: Its CSV files.
        reporter: Gets the events.
        stop: Returns the signal that asks the run to stop, if there is one.
    """

    def __init__(
        self,
        info: RunInfo,
        ledger: Ledger,
        tables: RunTables,
        *,
        reporter: WorkflowReporter,
        stop: Callable[[], StopSignal | None],
    ) -> None:
        self._info, self._setup = info, info.setup
        self._ledger = ledger
        self._tables = tables
        self._reporter = reporter
        self._stop = stop
        self._active: set[str] = set()
        """Names of the jobs that the executor has not ended yet."""
        self._failures = 0
        """In a row."""
        self.first_cause: str | None = None
        """Why the first job has failed."""

    def run(self, executor: Executor) -> Stopped:
        """Run everything that is left; returns why it has ended."""
        self._executor = executor
        self._submit([job for job in self._ledger.jobs.values() if not job.has_ended])
        stages: dict[str, Sequence[Callable[[], bool]]] = {
            "search": (self._base, self._search, self._close),
            "train": (self._base, self._search, self._close),
            "joint": (self._joint, self._sweep, self._finetune, self._close),
            "ppo": (self._plain,),
        }
        for stage in stages[self._info.mode]:
            if not stage():
                break
        reason = self._why_stop() or "finished"
        if reason != "finished":
            self._save_all()
        return reason

    def listen(self, event: JobProgress) -> None:
        """Take the progress of a job of the serial executor, and cancel it if the run stops."""
        self._handle(event)
        if self._stop() is not None:
            self._executor.cancel(event.name)

    def _base(self) -> bool:
        """The base phase, if there is one."""
        if self._setup.base_episodes and BASE not in self._ledger.jobs:
            self._dispatch([base_record(self._setup)])
        return self._finish_jobs() and not self._has_failed(BASE)

    def _search(self) -> bool:
        """Train under one workflow after the other until the search ends."""
        while self._why_stop() is None:
            self._fill()
            if not self._active:
                return self._why_stop() is None
            self._wait()
        return False

    def _fill(self) -> None:
        """Dispatch workflows until all slots are used."""
        config = self._setup.config
        free = config.jobs - len(self._active)
        if free < 1 or (config.sync_batches and self._active):
            return
        account = self._ledger.account(config.total_episodes)
        self._dispatch(next_records(self._setup, self._ledger.jobs, account, free))

    def _joint(self) -> bool:
        """Train one policy for all workflows."""
        if JOINT not in self._ledger.jobs:
            episodes = joint_episodes(self._setup)
            self._dispatch([JobRecord(JOINT, "joint", cap=episodes, reserved=episodes)])
        return self._finish_jobs() and not self._has_failed(JOINT)

    def _sweep(self) -> bool:
        """Evaluate it under all workflows."""
        if SWEEP not in self._ledger.jobs:
            ids = sweep_ids(self._setup)
            reserved = len(ids) * self._setup.sweep_episodes
            self._dispatch([evaluation_record(SWEEP, "sweep", [(JOINT, ids)], reserved=reserved)])
        return self._finish_jobs() and not self._has_failed(SWEEP)

    def _finetune(self) -> bool:
        """Train the best workflows further, each by itself."""
        trained = self._ledger.of_kind("train")
        wanted = self._setup.config.finetune
        if not trained and wanted:
            left = self._ledger.account(self._setup.config.total_episodes).left
            best = best_scored(self._setup, self._ledger.jobs, wanted)
            cap = self._setup.budget.cap_for(left // max(1, len(best)))
            if cap is not None:
                ids = [one.workflow_id for one in best]
                self._dispatch(finetune_records(self._setup, self._ledger.jobs, ids, cap))
        return self._finish_jobs()

    def _close(self) -> bool:
        """Evaluate the best workflows on fresh seeds, and train plain PPO to compare with."""
        new: list[JobRecord] = []
        if CLOSING not in self._ledger.jobs:
            best = best_scored(self._setup, self._ledger.jobs, BEST)
            if best:
                policies = [(one.job, [one.workflow_id]) for one in best]
                new.append(evaluation_record(CLOSING, "closing", policies))
        wants_plain = self._setup.wants_plain_ppo and self._info.mode != "train"
        if wants_plain and PLAIN not in self._ledger.jobs:
            new.append(self._plain_record())
        self._dispatch(new)
        return self._finish_jobs()

    def _plain(self) -> bool:
        """Train plain PPO, as a baseline."""
        if PLAIN not in self._ledger.jobs:
            self._dispatch([self._plain_record()])
        return self._finish_jobs() and not self._has_failed(PLAIN)

    def _plain_record(self) -> JobRecord:
        return JobRecord(PLAIN, "plain", cap=self._setup.config.total_episodes)

    def _has_failed(self, name: str) -> bool:
        """Whether a job without which nothing can follow has failed."""
        job = self._ledger.jobs.get(name)
        failed = job is not None and job.state == "failed"
        if failed:
            self._failures = MOST_FAILURES
        return failed

    def _finish_jobs(self) -> bool:
        """Wait for all jobs; returns whether the run goes on."""
        while self._active and self._why_stop() is None:
            self._wait()
        return self._why_stop() is None

    def _why_stop(self) -> Stopped | None:
        signal = self._stop()
        if signal is not None:
            return signal
        return "failures" if self._failures >= MOST_FAILURES else None

    def _dispatch(self, records: Sequence[JobRecord]) -> None:
        if records:
            self._ledger.dispatch(records)
            self._tables.write_search(self._ledger.jobs)
            self._submit(records)

    def _submit(self, records: Iterable[JobRecord]) -> None:
        for record in records:
            try:
                job = job_of(self._setup, self._info.folder, record)
            except BriskError as error:
                self._fail(record.name, str(error))
                continue
            self._active.add(record.name)
            self._executor.submit(job)

    def _wait(self) -> None:
        event = self._executor.wait(POLL_S)
        if event is not None:
            self._handle(event)

    def _handle(self, event: JobEvent) -> None:
        name = event.name
        match event:
            case JobStarted():
                self._reporter.on_job(self._ledger.jobs[name])
            case JobProgress():
                self._progress(event)
            case JobRetried():
                self._ledger.retried(name, event.cause)
                self._reporter.on_note(f"{name} begins again: {event.cause}")
            case JobDone():
                self._end(event)
            case JobFailed():
                self._active.discard(name)
                self._fail(name, event.cause)
            case JobCancelled():
                self._active.discard(name)

    def _progress(self, event: JobProgress) -> None:
        values, job = event.values, self._ledger.jobs[event.name]
        if "update" in values and not job.has_ended:
            self._ledger.progress(job.name, values["total_episodes"], values["env_steps"])
            self._tables.add_update(job, values)
            self._reporter.on_progress(job, values)

    def _end(self, event: JobDone) -> None:
        """Enter a result into the ledger; one without a score is a failure."""
        name, result = event.name, event.result
        self._active.discard(name)
        episodes = int(result["train_episodes"]) + int(result["eval_episodes"])
        scores = [one["score"] for one in result["evaluations"]]
        if any(score is None or not math.isfinite(score) for score in scores):
            self._fail(name, "its score is not a number", episodes)
            return
        job = self._ledger.done(name, result, episodes)
        self._failures = 0
        self._after(job)

    def _fail(self, name: str, cause: str, episodes: int | None = None) -> None:
        job = self._ledger.failed(name, cause, episodes)
        self._failures += 1
        self.first_cause = self.first_cause or f"{name}: {cause}"
        self._after(job)

    def _after(self, job: JobRecord) -> None:
        self._tables.write_results(self._ledger.jobs)
        self._reporter.on_job(job)

    def _save_all(self) -> None:
        """Let the jobs that still run save."""
        for name in list(self._active):
            self._executor.cancel(name)
        while self._active:
            event = self._executor.wait(POLL_S)
            if event is not None:
                self._handle(event)
