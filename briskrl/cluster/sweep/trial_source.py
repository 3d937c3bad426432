"""Where the trials of a sweep come from, and what learns of their ends."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Protocol

from briskrl.cluster.sweep.folder import SweepInfo
from briskrl.cluster.sweep.ledger import Ledger, PlannedTrial
from briskrl.cluster.sweep.outcome import TrialSummary, trials_of
from briskrl.cluster.sweep.plan import Plan
from briskrl.cluster.sweep.search import MILESTONES, SweepSearch
from briskrl.cluster.sweep.settings import REPORTED
from briskrl.core.types import JSON


class TrialSource(Protocol):
    """Decides which trials a sweep runs."""

    @property
    def needs_all_seeds(self) -> bool:
        """Whether a trial is worthless if one of its runs fails."""
        ...

    @property
    def milestones(self) -> int:
        """How often the run of a trial's first seed reports to `prunes`; 0 for never."""
        ...

    def next(self) -> PlannedTrial | None:
        """The next trial, to be planned at once; None if there is none."""
        ...

    def prunes(self, trial: int, values: Mapping[str, JSON]) -> bool:
        """Whether to prune a trial after this report of its first run."""
        ...

    def end(self, trial: TrialSummary) -> None:
        """Learn of the end of a trial; may be repeated."""
        ...


class FixedTrials:
    """The trials of a grid, or the only one of a sweep over seeds; all are planned at once."""

    needs_all_seeds = False
    milestones = 0

    def __init__(self, ledger: Ledger, trials: Iterable[PlannedTrial]) -> None:
        ledger.plan(trials)

    def next(self) -> PlannedTrial | None:
        """None: all trials are planned."""
        return None

    def prunes(self, trial: int, values: Mapping[str, JSON]) -> bool:
        """No."""
        return False

    def end(self, trial: TrialSummary) -> None:
        """Nothing to learn."""


class SearchedTrials:
    """Trials that Optuna chooses, each by the results of those that have ended."""

    needs_all_seeds = True

    def __init__(self, info: SweepInfo, plan: Plan, ledger: Ledger) -> None:
        self._plan = plan
        self._seeds: Sequence[int] = info.seeds
        self._metric = info.metric
        self._count = info.settings.num_trials
        self.milestones = 0 if info.settings.prune == "none" else MILESTONES
        self._search = SweepSearch(info, plan.space)
        known = [trial.trial for trial in trials_of(ledger.records.values())]
        self._search.reconcile(known)
        self._next = len(known)

    def next(self) -> PlannedTrial | None:
        """A new trial, until there are enough."""
        if self._next >= self._count:
            return None
        number = self._next
        self._next += 1
        values = self._plan.values(self._search.ask(number))
        return PlannedTrial(number, values, self._seeds)

    def prunes(self, trial: int, values: Mapping[str, JSON]) -> bool:
        """Whether Optuna's pruner gives the trial up."""
        score = values.get(REPORTED[self._metric])
        if score is None:
            return False
        return self._search.report(trial, values["milestone"], score)

    def end(self, trial: TrialSummary) -> None:
        """Report the value to Optuna, or that there is none."""
        pruned = trial.state == "pruned"
        self._search.end(trial.trial, trial.value(self._metric), pruned=pruned)


def open_trials(info: SweepInfo, plan: Plan, ledger: Ledger) -> TrialSource:
    """The trials of a sweep, those that are in its ledger included."""
    if info.settings.search is not None:
        return SearchedTrials(info, plan, ledger)
    planned = (
        PlannedTrial(number, values, info.seeds) for number, values in enumerate(plan.trials)
    )
    return FixedTrials(ledger, planned)
