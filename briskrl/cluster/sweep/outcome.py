"""What the runs of a sweep amount to: trials with their values, the best one, and spreads."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Literal

import numpy as np

from briskrl.cluster.statistics import aggregate
from briskrl.cluster.sweep.folder import SweepInfo
from briskrl.cluster.sweep.ledger import RunRecord, State
from briskrl.cluster.sweep.settings import Goal
from briskrl.core.types import JSON
from briskrl.training.reporter import StopSignal

if TYPE_CHECKING:
    from pathlib import Path

Stopped = Literal["finished", "budget", "failures", "killed", "running"] | StopSignal
"""Why a sweep has ended: everything is done, its hours are over, too many runs have failed, its
driver was killed, or a signal; or it has not ended. All but the first and the last can be
resumed."""


@dataclass(frozen=True, slots=True)
class Spread:
    """A metric over several runs, as a paper would report it."""

    runs: int
    iqm: float
    """Interquartile mean."""
    iqm_low: float | None
    """Ends of its 95 % bootstrap interval; None with one run."""
    iqm_high: float | None
    mean: float
    std: float | None
    """Standard deviation between runs; None with one run."""
    min: float
    max: float


@dataclass(frozen=True, slots=True)
class TrialSummary:
    """A trial, over the runs of all its seeds."""

    trial: int
    values: Mapping[str, JSON]
    runs: Sequence[RunRecord]

    @property
    def state(self) -> State:
        """The state of the trial; done means that every run is."""
        states = {record.state for record in self.runs}
        for state in ("failed", "pruned", "cancelled", "running"):
            if state in states:
                return state
        if states == {"done"}:
            return "done"
        return "running" if "done" in states else "planned"

    @property
    def has_ended(self) -> bool:
        """Whether no run of the trial remains to be done."""
        return all(record.has_ended for record in self.runs)

    @property
    def cause(self) -> str | None:
        """Why the trial has failed or was pruned."""
        causes = [record.cause for record in self.runs if record.state == self.state]
        return causes[0] if causes else None

    def scores(self, metric: str) -> dict[int, float]:
        """The metric of the runs that are done and have it, by their seeds."""
        found = {}
        for record in self.runs:
            value = None if record.result is None else record.result.get(metric)
            if value is not None and math.isfinite(value):
                found[record.seed] = float(value)
        return found

    def value(self, metric: str) -> float | None:
        """Mean of the metric over the seeds; None unless every run is done and has it."""
        scores = self.scores(metric)
        if self.state != "done" or len(scores) < len(self.runs):
            return None
        return math.fsum(scores.values()) / len(scores)


def trials_of(records: Iterable[RunRecord], *, confirms: bool = False) -> list[TrialSummary]:
    """The trials of these runs, in order.

    Args:
        records: Runs of a sweep.
        confirms: Of the reruns of the best trial instead of all other runs.
    """
    groups: dict[int, list[RunRecord]] = {}
    for record in records:
        if record.confirms == confirms:
            groups.setdefault(record.trial, []).append(record)
    return [TrialSummary(trial, runs[0].values, runs) for trial, runs in groups.items()]


def best_trial(trials: Iterable[TrialSummary], metric: str, goal: Goal) -> TrialSummary | None:
    """The finished trial with the best value; of equal ones the first."""
    best, best_value = None, 0.0
    for trial in trials:
        value = trial.value(metric)
        if value is None:
            continue
        if best is None or (value > best_value if goal == "max" else value < best_value):
            best, best_value = trial, value
    return best


def spread_of(scores: Sequence[float]) -> Spread | None:
    """Statistics of a metric over runs; None without runs."""
    if not scores:
        return None
    table = np.asarray(scores, np.float64)
    iqm = aggregate(table)
    return Spread(
        runs=len(table),
        iqm=iqm.value,
        iqm_low=iqm.low,
        iqm_high=iqm.high,
        mean=float(table.mean()),
        std=float(table.std(ddof=1)) if len(table) > 1 else None,
        min=float(table.min()),
        max=float(table.max()),
    )


@dataclass(frozen=True, slots=True)
class SweepResult:
    """The state of a sweep when its driver has ended."""

    info: SweepInfo
    records: Sequence[RunRecord]
    stopped: Stopped = "finished"
    first_cause: str | None = None
    """Why the first run of this session has failed."""
    files: Sequence[Path] = ()
    """Files of the report."""

    @property
    def trials(self) -> list[TrialSummary]:
        """All trials, without reruns of the best."""
        return trials_of(self.records)

    @property
    def best(self) -> TrialSummary | None:
        """The best finished trial. With several trials its value is selected, so too good."""
        return best_trial(self.trials, self.info.metric, self.info.goal)

    @property
    def confirmation(self) -> TrialSummary | None:
        """The reruns of the best trial on fresh seeds, if there are any."""
        best = self.best
        reruns = trials_of(self.records, confirms=True)
        return next((t for t in reruns if best is not None and t.trial == best.trial), None)

    @property
    def cpu_s(self) -> float:
        """CPU seconds of training in all finished runs, as far as they are known."""
        results = [run.result for run in self.records if run.result is not None]
        return math.fsum(result.get("cpu_s") or 0.0 for result in results)

    def count(self, state: State) -> int:
        """Number of runs in a state."""
        return sum(record.state == state for record in self.records)

    def as_json(self) -> dict[str, JSON]:
        """The result as one JSON object."""
        info, best, again = self.info, self.best, self.confirmation
        states: tuple[State, ...] = ("done", "failed", "pruned", "cancelled", "running", "planned")
        return {
            "sweep_dir": str(info.folder),
            "env": info.config.env,
            "algo": info.config.algo,
            "metric": info.metric,
            "goal": info.goal,
            "seeds": list(info.seeds),
            "stopped": self.stopped,
            "runs": {state: self.count(state) for state in states},
            "cpu_s": self.cpu_s,
            "trials": [self._trial_json(trial) for trial in self.trials],
            "best": None if best is None else self._trial_json(best),
            "confirmation": None if again is None else self._trial_json(again),
            "first_cause": self.first_cause,
            "files": [str(path) for path in self.files],
        }

    def _trial_json(self, trial: TrialSummary) -> dict[str, JSON]:
        metric = self.info.metric
        scores = trial.scores(metric)
        spread = spread_of(list(scores.values()))
        return {
            "trial": trial.trial,
            "values": dict(trial.values),
            "state": trial.state,
            "value": trial.value(metric),
            "spread": None if spread is None else asdict(spread),
            "cause": trial.cause,
            "runs": [
                {
                    "seed": record.seed,
                    "name": record.name,
                    "state": record.state,
                    "value": scores.get(record.seed),
                }
                for record in trial.runs
            ],
        }
