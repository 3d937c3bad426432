"""Runs the trials of a sweep on an executor, and keeps the ledger of what happens.

Every event is in the ledger before anything follows from it. So a driver that is killed at any
moment is continued by another one that replays the ledger: runs that have ended are not run again,
the others are submitted again and continue from their checkpoints.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Mapping
from dataclasses import replace
from time import monotonic

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
from briskrl.cluster.run_job import Evaluation, RunJob
from briskrl.cluster.sweep.folder import SweepInfo
from briskrl.cluster.sweep.ledger import Ledger, PlannedTrial, RunRecord, State
from briskrl.cluster.sweep.outcome import Stopped, TrialSummary, best_trial, trials_of
from briskrl.cluster.sweep.plan import trial_config
from briskrl.cluster.sweep.reporter import SweepReporter
from briskrl.cluster.sweep.trial_source import TrialSource
from briskrl.core.errors import ConfigError
from briskrl.core.types import JSON
from briskrl.training.reporter import StopSignal

POLL_S = 0.25
"""How often the driver looks for signals and deadlines."""
CHOOSING, CONFIRMING = 0, 1
"""Seeds of the evaluation episodes of trials, and of reruns of the best one."""


class Driver:
    """Runs what is left of a sweep.

    Args:
        info: The sweep.
        ledger: Its ledger, with the events so far.
        trials: Where trials come from.
        executor: Runs the jobs.
        reporter: Gets the events.
        jobs: Runs at the same time.
        stop: Returns the signal that asks the sweep to stop, if there is one.
    """

    def __init__(
        self,
        info: SweepInfo,
        ledger: Ledger,
        trials: TrialSource,
        executor: Executor,
        *,
        reporter: SweepReporter,
        jobs: int,
        stop: Callable[[], StopSignal | None],
    ) -> None:
        self._info = info
        self._ledger = ledger
        self._trials = trials
        self._executor = executor
        self._reporter = reporter
        self._jobs = jobs
        self._stop = stop
        self._waiting: deque[str] = deque()
        self._active: set[str] = set()
        """Names of the jobs that the executor has not ended yet."""
        self._failures = 0
        """In a row."""
        self.first_cause: str | None = None
        """Why the first run has failed."""
        hours = info.settings.budget_hours
        self._deadline = None if hours is None else monotonic() + 3600 * hours

    def run(self) -> Stopped:
        """Run the trials, then the reruns of the best one; returns why it has ended."""
        for trial in trials_of(self._ledger.records.values()):
            self._settle(trial, report=False)
        self._waiting.extend(r.name for r in self._open_runs() if not r.confirms)
        stopped = self._run_all(self._trials.next)
        if stopped == "finished" and self._info.settings.confirm_seeds:
            self._plan_confirmation()
            stopped = self._run_all(lambda: None)
        if stopped != "finished":
            self._save_all()
        return stopped

    def _run_all(self, new_trial: Callable[[], PlannedTrial | None]) -> Stopped:
        """Run what is waiting and what comes after it."""
        while (reason := self._why_stop()) is None:
            self._fill(new_trial)
            if not self._active:
                # Submitting may have failed too often.
                return self._why_stop() or "finished"
            event = self._executor.wait(POLL_S)
            if event is not None:
                self._handle(event)
        return reason

    def _why_stop(self) -> Stopped | None:
        signal = self._stop()
        if signal is not None:
            return signal
        if self._failures >= self._info.settings.max_failures:
            return "failures"
        if self._deadline is not None and monotonic() >= self._deadline:
            return "budget"
        return None

    def _fill(self, new_trial: Callable[[], PlannedTrial | None]) -> None:
        """Submit runs until all slots are used."""
        while len(self._active) < self._jobs and self._why_stop() is None:
            if self._waiting:
                self._submit(self._ledger.records[self._waiting.popleft()])
                continue
            trial = new_trial()
            if trial is None:
                return
            self._plan(trial)

    def _plan(self, trial: PlannedTrial) -> None:
        self._ledger.plan([trial])
        names = [run.name for run in self._open_runs() if run.trial == trial.trial]
        self._waiting.extend(names)

    def _plan_confirmation(self) -> None:
        """Plan the reruns of the best trial, or those of them that remain."""
        info = self._info
        best = best_trial(
            trials_of(self._ledger.records.values()), metric=info.metric, goal=info.goal
        )
        if best is None:
            self._reporter.on_note("No trial has finished, so there is nothing to confirm.")
            return
        first = max(info.seeds) + 1
        seeds = range(first, first + info.settings.confirm_seeds)
        self._plan(PlannedTrial(best.trial, best.values, seeds, confirms=True))

    def _submit(self, record: RunRecord) -> None:
        if record.has_ended:
            return
        try:
            job = self._job(record)
        except ConfigError as error:
            self._end(record.name, "failed", cause=str(error))
            return
        self._active.add(record.name)
        self._executor.submit(job)

    def _job(self, record: RunRecord) -> RunJob:
        info = self._info
        config = replace(trial_config(info, record.values), seed=record.seed)
        decides = record.seed == info.seeds[0] and not record.confirms
        return RunJob(
            record.name,
            config,
            Evaluation(
                episodes=info.settings.eval_episodes,
                seed=CONFIRMING if record.confirms else CHOOSING,
            ),
            num_gpus=info.executor.gpus_per_job,
            milestones=self._trials.milestones if decides else 0,
        )

    def _handle(self, event: JobEvent) -> None:
        name = event.name
        match event:
            case JobStarted():
                self._note_start(event)
            case JobProgress():
                self._progress(name, event.values)
            case JobRetried():
                self._ledger.add("retried", name, cause=event.cause)
                self._reporter.on_note(f"{name} begins again: {event.cause}")
            case JobDone():
                self._end(name, "done", result=dict(event.result))
            case JobFailed():
                self._end(name, "failed", cause=event.cause)
            case JobCancelled():
                self._active.discard(name)
                if not self._ledger.records[name].has_ended:
                    self._ledger.add("saved", name)

    def _note_start(self, event: JobStarted) -> None:
        if not self._ledger.records[event.name].has_ended:
            record = self._ledger.add("running", event.name, attempt=event.attempt, node=event.node)
            self._reporter.on_run(record)

    def _progress(self, name: str, values: Mapping[str, JSON]) -> None:
        record = self._ledger.records[name]
        # Without values it is a sign of life, for the executor.
        if record.has_ended or not values:
            return
        if "milestone" not in values:
            self._reporter.on_progress(record, values)
        elif self._trials.prunes(record.trial, values):
            share = values["milestone"] / self._trials.milestones
            self._end(name, "pruned", cause=f"it scored low after {share:.0%} of its budget")

    def _end(self, name: str, state: State, **facts: JSON) -> None:
        """Enter the end of a run into the ledger, and what follows from it."""
        if state in ("done", "failed"):
            self._active.discard(name)
        if self._ledger.records[name].has_ended:
            self._ledger.add(state, name, **facts)
            self._reporter.on_note(f"{name} has ended before; its second result is ignored.")
            return
        record = self._ledger.add(state, name, **facts)
        self._reporter.on_run(record)
        if state == "pruned":
            self._executor.cancel(name)
        if state == "failed":
            self._failures += 1
            self.first_cause = self.first_cause or f"{name}: {record.cause}"
        elif state == "done":
            self._failures = 0
        if not record.confirms:
            self._settle(self._summary(record.trial))

    def _settle(self, trial: TrialSummary, *, report: bool = True) -> None:
        """Give up the rest of a trial that was pruned or is worthless, and note its end."""
        if trial.state == "pruned":
            trial = self._give_up(trial, "pruned", "its trial was pruned")
        elif trial.state in ("failed", "cancelled") and self._trials.needs_all_seeds:
            trial = self._give_up(trial, "cancelled", "another run of its trial has failed")
        if trial.has_ended:
            self._trials.end(trial)
            if report:
                self._reporter.on_trial(trial)

    def _give_up(self, trial: TrialSummary, state: State, cause: str) -> TrialSummary:
        """End the runs of a trial that have not ended; returns the trial after that."""
        left = [record.name for record in trial.runs if not record.has_ended]
        for name in left:
            self._ledger.add(state, name, cause=cause)
            self._executor.cancel(name)
        return self._summary(trial.trial) if left else trial

    def _summary(self, trial: int) -> TrialSummary:
        records = self._ledger.records.values()
        (found,) = trials_of(run for run in records if run.trial == trial and not run.confirms)
        return found

    def _open_runs(self) -> list[RunRecord]:
        return [run for run in self._ledger.records.values() if not run.has_ended]

    def _save_all(self) -> None:
        """Let the jobs that still run save, and enter into the ledger that they wait."""
        for name in list(self._active):
            self._executor.cancel(name)
        while self._active:
            event = self._executor.wait(POLL_S)
            if event is not None:
                self._handle(event)
