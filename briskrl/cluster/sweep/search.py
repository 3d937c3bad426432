"""Trials that Optuna chooses. Its journal is in the folder of the sweep.

The ledger decides which trials exist; the journal holds what Optuna has to know of them. A trial is
in the journal before it is in the ledger, and its end is in the ledger before it is in the journal,
so that after any interruption the journal can be completed from the ledger. Every trial has a
sampler with a seed of its own, so that a resumed search chooses what it would have chosen.
"""

from __future__ import annotations

import warnings
from collections.abc import Collection, Iterator, Mapping
from contextlib import contextmanager
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any

from briskrl.cluster.sweep.settings import Goal, Prune, Search
from briskrl.cluster.sweep.space import Dimension, Range
from briskrl.core.errors import ConfigError, RunFolderError

if TYPE_CHECKING:
    from optuna import Study
    from optuna.distributions import BaseDistribution
    from optuna.pruners import BasePruner
    from optuna.samplers import BaseSampler
    from optuna.storages.journal import JournalStorage
    from optuna.trial import FrozenTrial

    from briskrl.cluster.sweep.folder import SweepInfo

JOURNAL = "optuna.journal"
MILESTONES = 20
"""How often a run reports its score for pruning: after each twentieth of its budget."""
INSTALL = "pip install 'briskrl[sweep]'"
_STUDY = "sweep"
_NUMBER = "trial"
"""Attribute of Optuna's trials with the number of the trial in the ledger."""
_LEAST_STARTUP = 2
"""Milestones before which the median does not prune: scores of the first episodes are noise."""
_PACKAGES: Mapping[Search, tuple[str, ...]] = {
    "tpe": ("optuna",),
    "random": ("optuna",),
    "cmaes": ("optuna", "cmaes"),
    "qmc": ("optuna", "scipy"),
    "gp": ("optuna", "scipy"),
}
"""What each sampler imports."""


def check_installed(search: Search) -> None:
    """Check that the packages of a sampler are installed, without importing them.

    Raises:
        ConfigError: One of them is missing.
    """
    missing = [name for name in _PACKAGES[search] if find_spec(name) is None]
    if missing:
        raise ConfigError(
            f"--search {search} needs the package {' and '.join(missing)}. Install it with: "
            f"{INSTALL}"
        )


class SweepSearch:
    """Chooses the trials of a sweep, and decides which ones to prune.

    Args:
        info: The sweep, whose folder is locked by the caller.
        space: What to choose from.

    Raises:
        BriskError: Optuna is missing, or its journal cannot be used.
    """

    def __init__(self, info: SweepInfo, space: Mapping[str, Dimension]) -> None:
        search = info.settings.search
        assert search is not None
        check_installed(search)
        self._search: Search = search
        self._seed = info.config.seed
        self._space = space
        self._study = _open_study(info.folder, info.goal, make_pruner(info.settings.prune))
        self._numbers = {
            trial.user_attrs[_NUMBER]: trial.number
            for trial in self._study.get_trials(deepcopy=False)
            if _NUMBER in trial.user_attrs
        }

    def reconcile(self, known: Collection[int]) -> None:
        """Give up what was asked for but never began, because the driver was killed.

        Args:
            known: The trials of the ledger.

        Raises:
            RunFolderError: The journal lacks one of them.
        """
        from optuna.trial import TrialState

        missing = sorted(set(known) - set(self._numbers))
        if missing:
            raise RunFolderError(
                f"{JOURNAL} lacks trial {missing[0]} of the ledger. Restore it from a copy of the "
                f"folder, or begin a new sweep."
            )
        for trial in self._study.get_trials(deepcopy=False, states=(TrialState.RUNNING,)):
            if trial.user_attrs.get(_NUMBER) not in known:
                self._study.tell(trial.number, state=TrialState.FAIL)

    def ask(self, trial: int) -> dict[str, Any]:
        """Values by the names of keys for the trial with this number, which begins."""
        self._study.sampler = make_sampler(self._search, self._trial_seed(trial))
        with _without_warnings():
            asked = self._study.ask(distributions(self._space))
        asked.set_user_attr(_NUMBER, trial)
        self._numbers[trial] = asked.number
        return {name: _value(self._space[name], asked.params[name]) for name in self._space}

    def report(self, trial: int, milestone: int, score: float) -> bool:
        """Add the score of a trial at a milestone; returns whether to prune the trial."""
        frozen = self._frozen(trial)
        if frozen.state.is_finished() or milestone in frozen.intermediate_values:
            return False
        storage = self._study._storage
        storage.set_trial_intermediate_value(frozen._trial_id, milestone, score)
        return bool(self._study.pruner.prune(self._study, self._frozen(trial)))

    def end(self, trial: int, value: float | None, *, pruned: bool = False) -> None:
        """Report the end of a trial; no effect if it was reported before.

        Args:
            trial: Its number.
            value: Its metric; None if it has failed or was pruned.
            pruned: Whether it was pruned.
        """
        from optuna.trial import TrialState

        if self._frozen(trial).state.is_finished():
            return
        state = TrialState.PRUNED if pruned else TrialState.FAIL
        if value is None:
            self._study.tell(self._numbers[trial], state=state)
        else:
            self._study.tell(self._numbers[trial], value)

    def _frozen(self, trial: int) -> FrozenTrial:
        return self._study.get_trials(deepcopy=False)[self._numbers[trial]]

    def _trial_seed(self, trial: int) -> int:
        from briskrl.core.rng import derive_seed

        # The points of a quasi-random sequence belong together.
        name = "search" if self._search == "qmc" else f"search {trial}"
        return derive_seed(self._seed, name) % 2**32


def load_study(folder: Path) -> Study:
    """The Optuna study of a sweep, to read, also while it runs.

    Raises:
        BriskError: Optuna is missing, or the sweep has no study.
    """
    check_installed("random")
    import optuna

    if not (folder / JOURNAL).is_file():
        raise RunFolderError(f"{folder} has no {JOURNAL}: it is not the sweep of a search.")
    with _readable(folder):
        return optuna.load_study(study_name=_STUDY, storage=_journal(folder))


def distributions(space: Mapping[str, Dimension]) -> dict[str, BaseDistribution]:
    """Optuna's names for the dimensions of a space."""
    from optuna.distributions import (
        CategoricalDistribution,
        FloatDistribution,
        IntDistribution,
    )

    found: dict[str, BaseDistribution] = {}
    for name, one in space.items():
        if not isinstance(one, Range):
            found[name] = CategoricalDistribution(list(one.values))
        elif one.whole:
            found[name] = IntDistribution(int(one.low), int(one.high), log=one.log)
        else:
            found[name] = FloatDistribution(one.low, one.high, log=one.log)
    return found


def make_sampler(search: Search, seed: int) -> BaseSampler:
    """An Optuna sampler."""
    from optuna import samplers

    with _without_warnings():
        if search == "tpe":
            return samplers.TPESampler(seed=seed)
        if search == "random":
            return samplers.RandomSampler(seed=seed)
        if search == "cmaes":
            return samplers.CmaEsSampler(seed=seed, warn_independent_sampling=False)
        if search == "qmc":
            return samplers.QMCSampler(seed=seed, scramble=True, warn_independent_sampling=False)
        return samplers.GPSampler(seed=seed)


def make_pruner(prune: Prune) -> BasePruner:
    """An Optuna pruner for scores at milestones."""
    from optuna import pruners

    if prune == "hyperband":
        return pruners.HyperbandPruner(min_resource=1, max_resource=MILESTONES)
    if prune == "median":
        return pruners.MedianPruner(n_warmup_steps=_LEAST_STARTUP)
    return pruners.NopPruner()


def _open_study(folder: Path, goal: Goal, pruner: BasePruner) -> Study:
    """The study in the journal, which is created if it is missing."""
    import optuna

    optuna.logging.set_verbosity(optuna.logging.WARNING)
    _drop_torn_line(folder / JOURNAL)
    # A driver that was killed leaves Optuna's own lock. Ours has ended with it.
    (folder / f"{JOURNAL}.lock").unlink(missing_ok=True)
    with _readable(folder):
        return optuna.create_study(
            study_name=_STUDY,
            storage=_journal(folder),
            direction="maximize" if goal == "max" else "minimize",
            pruner=pruner,
            load_if_exists=True,
        )


def _journal(folder: Path) -> JournalStorage:
    from optuna.storages.journal import JournalFileBackend, JournalFileOpenLock, JournalStorage

    path = str(folder / JOURNAL)
    with _without_warnings():
        return JournalStorage(JournalFileBackend(path, JournalFileOpenLock(path)))


def _drop_torn_line(path: Path) -> None:
    """Remove an incomplete last line, to which Optuna would append the next one."""
    from briskrl.training.storage.line_files import LineFile

    file = LineFile(path)
    file.truncate(file.size)
    file.close()


@contextmanager
def _readable(folder: Path) -> Iterator[None]:
    """Turn errors of a damaged journal into a RunFolderError."""
    try:
        yield
    except Exception as error:
        raise RunFolderError(f"{folder / JOURNAL} cannot be read: {error}.") from error


def _value(dimension: Dimension, chosen: Any) -> Any:
    return chosen if isinstance(dimension, Range) else dimension.values[chosen]


@contextmanager
def _without_warnings() -> Iterator[None]:
    """Without Optuna's notes on features that may change."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        yield
