"""Settings of a sweep: what varies, over which seeds, and how trials are compared."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Annotated, Literal

from msgspec import Meta

from briskrl.core.text_values import Assignments

Search = Literal["tpe", "random", "cmaes", "qmc", "gp"]
Prune = Literal["none", "hyperband", "median"]
Goal = Literal["max", "min"]
Metric = Literal[
    "score",
    "return",
    "mean_score",
    "mean_return",
    "steps_per_s",
    "wall_s",
    "cpu_s",
    "env_steps",
    "episodes",
    "updates",
]
Seeds = Annotated[int, Meta(ge=1, le=10_000)] | tuple[Annotated[int, Meta(ge=0)], ...]

REPORTED: Mapping[str, str] = {
    "score": "mean_score",
    "mean_score": "mean_score",
    "return": "mean_return",
    "mean_return": "mean_return",
}
"""Metrics that runs report while they train, by the names of the reported values."""
SMALL_IS_GOOD = ("wall_s", "cpu_s", "env_steps", "episodes", "updates")
"""Metrics with the goal min unless another one is given."""
DEFAULT_TRIALS = 40


@dataclass(frozen=True, slots=True)
class SeedsConfig:
    """Training the same settings on several seeds."""

    seeds: Seeds | None = None
    """Train on several seeds, in a folder of runs: a number of seeds, which begin at --seed, or a
    list such as 3,7,11. The summary is what a paper would report."""
    eval_episodes: Annotated[int, Meta(ge=1, le=1_000_000)] = 100
    """Episodes of an evaluation during training, and with --seeds of every finished policy."""


@dataclass(frozen=True, slots=True)
class SweepConfig:
    """What a sweep tries, on which seeds, and how it compares trials."""

    grid: Assignments = field(default_factory=dict)
    """A setting and its values, such as lr=1e-4,1e-3; lists are separated by |, as in
    net=64,64|128. May be repeated: every combination is a trial."""
    search: Search | None = None
    """Let Optuna choose the trials: tpe (Parzen estimators), random, cmaes, qmc (Sobol points) or
    gp (Gaussian process)."""
    trials: Annotated[int, Meta(ge=1, le=1_000_000)] | None = None
    """Trials of a search; 40 by default."""
    range: Assignments = field(default_factory=dict)
    """A number to search, such as lr=1e-4..1e-2:log or batch_size=32..512:int; may be repeated."""
    choice: Assignments = field(default_factory=dict)
    """A setting and its values to search, written as for --grid; may be repeated."""
    seeds: Seeds = 1
    """Seeds of every trial: a number of seeds, which begin at --seed, or a list such as 3,7,11."""
    prune: Prune = "none"
    """Stop trials of a search that score low while they train; the run of the first seed
    decides."""
    metric: Metric = "score"
    """What to compare, averaged over the seeds of a trial: score or return of the evaluation,
    mean_score or mean_return at the end of training, or its speed, time or length."""
    goal: Goal | None = None
    """Whether the best metric is the largest or the smallest; by default min for times and
    lengths, max for the rest."""
    budget_hours: Annotated[float, Meta(gt=0)] | None = None
    """Hours after which the sweep stops; running jobs save, and `brisk sweep resume` continues."""
    max_failures: Annotated[int, Meta(ge=1)] = 5
    """Failed runs in a row, without a finished one between them, after which the sweep stops."""
    eval_episodes: Annotated[int, Meta(ge=1, le=1_000_000)] = 100
    """Episodes that every finished policy is evaluated on. Their seeds are never used in
    training."""
    confirm_seeds: Annotated[int, Meta(ge=0, le=10_000)] = 0
    """Fresh seeds on which the best trial is run again, because the score of the best of many
    trials is too high on average. Its new score is the one to report."""
    sweep_dir: str | None = None
    """Folder of the sweep to create; by default a new one under sweeps/."""

    @property
    def num_trials(self) -> int:
        """Trials of a search."""
        return self.trials or DEFAULT_TRIALS

    @property
    def direction(self) -> Goal:
        """The goal, or the default for the metric."""
        return self.goal or ("min" if self.metric in SMALL_IS_GOOD else "max")

    def seed_list(self, first: int) -> tuple[int, ...]:
        """The seeds of every trial; `first` is the seed of the training settings."""
        if isinstance(self.seeds, int):
            return tuple(range(first, first + self.seeds))
        return self.seeds

    def check(self) -> list[str]:
        """Problems with combinations of settings, one sentence each."""
        return [*self._check_search(), *self._check_pruning(), *self._check_seeds()]

    def _check_search(self) -> list[str]:
        searched = [*self.range, *self.choice]
        if self.search is None:
            given = [name for name in ("range", "choice", "trials") if getattr(self, name)]
            return [f"{name} is for a search: add --search tpe, or use --grid." for name in given]
        if self.grid:
            return ["grid and search exclude each other: give one of them."]
        if not searched:
            return [f"search {self.search} has nothing to search: add --range or --choice."]
        twice = sorted(set(self.range) & set(self.choice))
        return [f"range and choice both name {name!r}: give one of them." for name in twice]

    def _check_pruning(self) -> list[str]:
        if self.prune == "none":
            return []
        if self.search is None:
            return [f"prune {self.prune} is for a search, and there is none: add --search tpe."]
        if self.metric not in REPORTED:
            return [
                f"prune {self.prune} needs a metric that runs report while they train, which "
                f"{self.metric} is not: {', '.join(REPORTED)}."
            ]
        return []

    def _check_seeds(self) -> list[str]:
        problems = []
        if not isinstance(self.seeds, int):
            if not self.seeds:
                problems.append("seeds is empty.")
            if len(set(self.seeds)) < len(self.seeds):
                problems.append("seeds names a seed twice.")
        if self.confirm_seeds and not self.grid and self.search is None:
            problems.append("confirm_seeds needs trials to choose from: add --grid or --search.")
        return problems
