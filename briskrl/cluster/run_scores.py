"""Scores of one run, read from its folder: episodes of training, and the final evaluation."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from briskrl.cluster.arrival import steps_to_score
from briskrl.cluster.run_job import read_job_result
from briskrl.core.errors import RunFolderError
from briskrl.core.state_checks import MALFORMED
from briskrl.core.types import JSON
from briskrl.training.storage.episode_log import (
    Clock,
    EpisodeLog,
    Metric,
    read_episodes,
    seconds_after,
)
from briskrl.training.storage.run_dir import RunDir
from briskrl.training.storage.training_times import read_metrics

LAST_PART = 0.1
"""Last part of training, in transitions, whose episodes are the final score of training."""


@dataclass(frozen=True, slots=True)
class EvalScore:
    """The evaluation of a finished run."""

    value: float
    episodes: int


@dataclass(frozen=True, slots=True)
class RunScores:
    """What is known of one run."""

    folder: Path
    episodes: EpisodeLog
    env_steps: int
    """Transitions collected, as far as the log goes."""
    cpu_s: float | None
    """CPU seconds of training; None before the first row of metrics.jsonl."""
    evaluation: EvalScore | None
    """None if the run was not evaluated when it ended, or was trained further since."""
    is_finished: bool

    @property
    def final(self) -> float:
        """Mean over the episodes that ended in the last tenth of training."""
        steps = self.episodes.steps
        begin = np.searchsorted(steps, (1 - LAST_PART) * steps[-1], side="right")
        return float(self.episodes.values[min(int(begin), len(steps) - 1) :].mean())

    def mean_of_first(self, episodes: int) -> float:
        """Mean over the first episodes of training."""
        return float(self.episodes.values[:episodes].mean())

    def steps_to(self, score: float, window: int) -> float | None:
        """Transitions until training reached a score; see `briskrl.cluster.arrival`."""
        return steps_to_score(self.episodes.steps, self.episodes.values, score, window=window)

    def places(self, clock: Clock, steps: NDArray[np.float64] | None = None) -> NDArray[np.float64]:
        """Where the clock stood after these numbers of transitions; by default, of all episodes.

        Raises:
            RunFolderError: The clock is one of time, and the run has no times yet.
        """
        at = self.episodes.steps if steps is None else steps
        return at if clock == "env_steps" else seconds_after(RunDir(self.folder), at, clock)


def read_scores(folder: Path, metric: Metric) -> RunScores:
    """The scores of a run; it may still be in training.

    Raises:
        RunFolderError: No episode has finished yet, or a file cannot be read.
    """
    run = RunDir.open(folder)
    episodes = read_episodes(run, metric)
    last = _last_row(folder)
    logged = int(last.get("env_steps", 0))
    return RunScores(
        folder=folder,
        episodes=episodes,
        # The log of metrics may lag a little behind that of episodes.
        env_steps=max(logged, int(episodes.steps[-1])),
        cpu_s=last.get("cpu_s"),
        evaluation=_evaluation(run, metric, logged),
        is_finished=run.read_status().get("state") == "finished",
    )


def _last_row(folder: Path) -> Mapping[str, JSON]:
    path = folder / "metrics.jsonl"
    last: Mapping[str, JSON] = {}
    try:
        if path.exists():
            for row in read_metrics(path):
                last = row
    except (OSError, *MALFORMED) as error:
        raise RunFolderError(f"The metrics of {folder} cannot be read: {error}.") from error
    return last


def _evaluation(run: RunDir, metric: Metric, env_steps: int) -> EvalScore | None:
    """That of a job or of `brisk train`, unless the run has been trained further since."""
    result = read_job_result(run.path)
    if result is not None:
        return _eval_score(result, "env_steps", metric, "eval_episodes", env_steps)
    return _eval_score(
        run.read_meta(), "final_env_steps", f"final_{metric}", "final_episodes", env_steps
    )


def _eval_score(
    facts: Mapping[str, JSON], at: str, value: str, episodes: str, env_steps: int
) -> EvalScore | None:
    """The evaluation with these keys; None if it is of another moment, or not readable."""
    try:
        if int(facts[at]) != env_steps:
            return None
        found = EvalScore(float(facts[value]), int(facts[episodes]))
    except MALFORMED:
        return None
    return found if np.isfinite(found.value) else None
