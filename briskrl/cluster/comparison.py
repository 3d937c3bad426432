"""Compare groups of runs: final scores, what it took to reach a score, and which group is better.

All intervals are 95 % bootstrap intervals over runs.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace

import numpy as np

from briskrl.cluster.arrival import Arrival, aggregate_arrivals, default_window
from briskrl.cluster.group_names import hidden_differences
from briskrl.cluster.groups import LeftOut, RunGroup
from briskrl.cluster.run_scores import RunScores, read_scores
from briskrl.cluster.statistics import (
    FEW_RUNS,
    Aggregate,
    aggregate,
    probability_of_improvement,
)
from briskrl.core.errors import ConfigError, RunFolderError
from briskrl.plots.rows import cut_name
from briskrl.training.storage.episode_log import Metric

TARGET_PART = 0.9
"""The default score to reach, on the way of the best group from its first to its final score."""
TARGET_DIGITS = 3


@dataclass(frozen=True, slots=True)
class Target:
    """A score of training that all groups are to reach."""

    score: float
    window: int
    """Episodes of the mean that must reach it."""
    is_given: bool
    """Whether the user chose it."""


@dataclass(frozen=True, slots=True)
class GroupResult:
    """The figures of one group; of times, None if no score is to be reached."""

    group: RunGroup
    runs: tuple[RunScores, ...]
    scores: tuple[float, ...]
    """Final score of every run."""
    final: Aggregate
    """Interquartile mean of the final scores."""
    steps: Arrival | None = None
    """Transitions to the score."""
    cpu_s: Arrival | None = None
    """CPU seconds of training to the score; None also if a run has no times yet."""
    improvement: Aggregate | None = None
    """How likely a run of the first group scores higher than one of this; None for the first."""

    @property
    def name(self) -> str:
        """Name of the group."""
        return self.group.name


@dataclass(frozen=True, slots=True)
class Comparison:
    """Groups of runs, the best one first."""

    results: tuple[GroupResult, ...]
    metric: Metric
    eval_episodes: int | None
    """Episodes of the evaluation that final scores come from; None if they come from training."""
    target: Target | None
    """None if no group has improved in training, so that there is nothing to reach."""
    left_out: tuple[LeftOut, ...]
    notes: tuple[str, ...] = field(default=())
    """What a reader should know before trusting the figures, one sentence each."""

    @property
    def best(self) -> GroupResult:
        """The first group."""
        return self.results[0]

    @property
    def envs(self) -> list[str]:
        """Environments of the groups."""
        return list(dict.fromkeys(result.group.env for result in self.results))


def compare_groups(
    groups: Sequence[RunGroup],
    *,
    metric: Metric = "score",
    to: float | None = None,
    window: int | None = None,
    mixed_envs: bool = False,
    keep_order: bool = False,
) -> Comparison:
    """Read the runs of all groups and compare them.

    Args:
        groups: Groups with different names.
        metric: The environment's own measure of episodes, or their returns.
        to: Score of training to reach; by default one on the way of the best group.
        window: Episodes of the mean that must reach it; see `default_window`.
        mixed_envs: Compare scores of different environments.
        keep_order: The first group is the best by a rule of the caller; by default it is the one
            with the best final score.

    Raises:
        ConfigError: The groups are of different environments.
        RunFolderError: There is no run that can be read.
    """
    _check_envs(groups, mixed_envs=mixed_envs)
    read = [_read(group, metric) for group in groups]
    left_out = [entry for group, _ in read for entry in group.left_out]
    read = [(group, runs) for group, runs in read if runs]
    if not read:
        causes = "; ".join(f"{entry.folder}: {entry.cause}" for entry in left_out[:3])
        raise RunFolderError(f"None of the runs can be compared. {causes}")
    everything = [run for _, runs in read for run in runs]
    eval_episodes = _common_evaluation(everything)
    results = [_final(group, runs, eval_episodes) for group, runs in read]
    if not keep_order:
        results.sort(key=lambda result: -result.final.value)
    results = [results[0], *(_improve(results[0], other) for other in results[1:])]
    if window is None:
        window = default_window([len(run.episodes.values) for run in everything])
    target = _target(results, to, window)
    if target is not None:
        results = [_reach(result, target) for result in results]
    return Comparison(
        results=tuple(results),
        metric=metric,
        eval_episodes=eval_episodes,
        target=target,
        left_out=tuple(left_out),
        notes=tuple(_notes(results)),
    )


def _check_envs(groups: Sequence[RunGroup], *, mixed_envs: bool) -> None:
    envs = list(dict.fromkeys(group.env for group in groups))
    if len(envs) > 1 and not mixed_envs:
        raise ConfigError(
            f"The runs are of different environments: {', '.join(envs)}. Their scores mean "
            "different things. Compare those of one environment, or add --mixed-envs."
        )


def _read(group: RunGroup, metric: Metric) -> tuple[RunGroup, tuple[RunScores, ...]]:
    """The scores of a group's runs; the group without the runs that cannot be read."""
    runs, kept, left_out = [], [], list(group.left_out)
    for folder, seed in zip(group.folders, group.seeds, strict=True):
        try:
            runs.append(read_scores(folder, metric))
            kept.append((folder, seed))
        except RunFolderError as error:
            left_out.append(LeftOut(folder, str(error)))
    folders = tuple(folder for folder, _ in kept)
    seeds = tuple(seed for _, seed in kept)
    group = replace(group, folders=folders, seeds=seeds, left_out=tuple(left_out))
    return group, tuple(runs)


def _common_evaluation(runs: Sequence[RunScores]) -> int | None:
    """Episodes of the evaluations, if every run has one and all are alike."""
    kinds = {run.evaluation.episodes if run.evaluation else None for run in runs}
    return kinds.pop() if len(kinds) == 1 else None


def _final(group: RunGroup, runs: tuple[RunScores, ...], eval_episodes: int | None) -> GroupResult:
    scores = tuple(
        run.final if eval_episodes is None or run.evaluation is None else run.evaluation.value
        for run in runs
    )
    return GroupResult(group, runs, scores, aggregate(scores))


def _improve(best: GroupResult, other: GroupResult) -> GroupResult:
    return replace(other, improvement=probability_of_improvement(best.scores, other.scores))


def _target(results: Sequence[GroupResult], to: float | None, window: int) -> Target | None:
    """The score to reach.

    By default it lies at TARGET_PART of the way from the first to the final episodes of the group
    whose training ends best. Training alone counts, because a greedy evaluation may be better than
    training ever is.
    """
    if to is not None:
        return Target(to, window, is_given=True)
    finals = [aggregate([run.final for run in result.runs]).value for result in results]
    index = int(np.argmax(finals))
    first = aggregate([run.mean_of_first(window) for run in results[index].runs]).value
    if finals[index] <= first:
        return None
    score = first + TARGET_PART * (finals[index] - first)
    return Target(float(f"{score:.{TARGET_DIGITS}g}"), window, is_given=False)


def _reach(result: GroupResult, target: Target) -> GroupResult:
    steps = [run.steps_to(target.score, target.window) for run in result.runs]
    return replace(result, steps=aggregate_arrivals(steps), cpu_s=_seconds(result.runs, steps))


def _seconds(runs: Sequence[RunScores], steps: Sequence[float | None]) -> Arrival | None:
    """CPU seconds after these steps of the runs; None if a run has no times yet."""
    try:
        times = [
            None if at is None else float(run.places("cpu_s", np.array([at]))[0])
            for run, at in zip(runs, steps, strict=True)
        ]
    except RunFolderError:
        return None
    return aggregate_arrivals(times)


def _notes(results: Sequence[GroupResult]) -> Iterator[str]:
    """What limits the comparison, one sentence each."""
    single = [result for result in results if len(result.runs) == 1]
    if single:
        who = _names(single, results)
        yield f"{who}: one run has no interval and shows nothing about other seeds."
    few = [result for result in results if 1 < len(result.runs) < FEW_RUNS]
    if few:
        yield (
            f"{_names(few, results)}: bootstrap intervals of fewer than {FEW_RUNS} runs are too "
            "narrow; train more seeds before you rely on them."
        )
    repeated = [r for r in results if len(set(r.group.seeds)) < len(r.group.seeds)]
    if repeated:
        yield (
            f"{_names(repeated, results)}: some runs have the same seed. They are not independent, "
            "so the interval is too narrow."
        )
    finished = [run.is_finished for result in results for run in result.runs]
    if not all(finished):
        count = finished.count(False)
        yield f"{count} of {len(finished)} runs have not finished; they count as far as they go."
    hidden = hidden_differences([result.group for result in results])
    if hidden:
        yield f"The groups also differ in {', '.join(hidden)}."


def _names(some: Sequence[GroupResult], results: Sequence[GroupResult]) -> str:
    """The names of some groups, in a few words."""
    if 1 < len(some) == len(results):
        return "all groups"
    more = len(some) - 3
    first = "; ".join(cut_name(result.name) for result in some[:3])
    return f"{first} and {more} more" if more > 0 else first
