"""What a run has found: the best workflow, how sure that is, and whether the order matters."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path

import numpy as np

from briskrl.cluster.statistics import Aggregate
from briskrl.core.types import JSON, Ints
from briskrl.orders.workflow import Workflow
from briskrl.workflows.order_effect import OrderEffect
from briskrl.workflows.ranking import RankedOrder
from briskrl.workflows.run.evaluation_plan import Evaluated
from briskrl.workflows.run.folder import RunInfo
from briskrl.workflows.run.ledger import JobRecord, Stopped
from briskrl.workflows.run.recommendation import BEST
from briskrl.workflows.run.results import (
    Scored,
    evaluations_of,
    latest_per_workflow,
    mean_interval,
    restore_searcher,
    scored_workflows,
)
from briskrl.workflows.run.seeds import job_seed
from briskrl.workflows.searcher import Searcher


@dataclass(frozen=True, slots=True)
class Finalist:
    """One of the best workflows, with its last evaluation."""

    workflow: Workflow
    ranked: RankedOrder
    job: str
    """Job whose policy it is."""
    evaluated: Evaluated
    """The closing evaluation; that of the search if there is none yet."""
    is_closing: bool
    interval: Aggregate
    """Of the score."""

    def as_json(self) -> dict[str, JSON]:
        """The workflow as a JSON object."""
        counts = self.evaluated.counts
        return {
            "workflow": str(self.workflow),
            "id": self.workflow.id,
            "score": self.interval.value,
            "ci": [self.interval.low, self.interval.high],
            "feasible": self.ranked.feasible,
            "compliance": _known(counts.compliance),
            "contested_compliance": _known(counts.contested_compliance),
            "contested_share": _known(counts.contested_share),
            "eval_episodes": counts.episodes,
            "job": self.job,
        }


@dataclass(frozen=True)
class Outcome:
    """The state of a run, from its ledger."""

    info: RunInfo
    jobs: Mapping[str, JobRecord]
    stopped: Stopped = "finished"
    first_cause: str | None = None
    """Why the first job of this session has failed."""
    files: Sequence[Path] = ()
    """Files of the report."""

    @cached_property
    def searcher(self) -> Searcher:
        """The search with all results."""
        return restore_searcher(self.info.setup, self.jobs)

    @cached_property
    def scored(self) -> list[Scored]:
        """All evaluations of the search, in the order of the jobs."""
        return scored_workflows(self.jobs.values())

    @cached_property
    def ranking(self) -> list[RankedOrder]:
        """All evaluated workflows, the recommended one first."""
        return self.searcher.ranking()

    @cached_property
    def finalists(self) -> list[Finalist]:
        """The best workflows, the recommended one first.

        The order is that of the search: the closing evaluation measures, and does not choose.
        """
        latest = latest_per_workflow(self.scored)
        closing = self._closing()
        found = []
        for row in self.ranking[:BEST]:
            scored = latest[row.workflow.id]
            one = closing.get(row.workflow.id, scored.evaluated)
            assert one is not None
            found.append(
                Finalist(
                    workflow=row.workflow,
                    ranked=row,
                    job=scored.job,
                    evaluated=one,
                    is_closing=row.workflow.id in closing,
                    interval=mean_interval(one.returns, self._bootstrap_seed),
                )
            )
        return found

    @property
    def best(self) -> Finalist | None:
        """The recommended workflow."""
        return next(iter(self.finalists), None)

    @cached_property
    def difference(self) -> Aggregate | None:
        """Score of the first minus that of the second, over the same episodes."""
        if len(self.finalists) < 2:
            return None
        first, second = (np.array(one.evaluated.returns) for one in self.finalists[:2])
        if first.shape != second.shape:
            return None
        return mean_interval((first - second).tolist(), self._bootstrap_seed)

    @property
    def runner_up_differs(self) -> bool | None:
        """Whether the interval of that difference leaves out 0; None without a second one."""
        if self.difference is None or self.difference.low is None:
            return None
        assert self.difference.high is not None
        return not self.difference.low <= 0 <= self.difference.high

    @cached_property
    def pair_counts(self) -> Ints:
        """Judged fixes at which two categories were open, over all evaluations, (m, m)."""
        m = self.info.setup.space.m
        latest = latest_per_workflow(self.scored).values()
        parts = [np.array(one.evaluated.pairs) for one in latest if one.evaluated is not None]
        return sum(parts, np.zeros((m, m), np.int64))

    @cached_property
    def order_effect(self) -> OrderEffect:
        """Whether the order matters."""
        return self.searcher.order_effect(
            min_contested=self.info.config.min_contested, pair_counts=self.pair_counts
        )

    @cached_property
    def plain_ppo(self) -> tuple[Evaluated, Aggregate] | None:
        """Plain PPO on the closing episodes, with its interval; None if it was not trained."""
        for job in self.jobs.values():
            if job.kind == "plain" and job.state == "done":
                (one,) = evaluations_of(job)
                return one, mean_interval(one.returns, self._bootstrap_seed)
        return None

    @property
    def plain_difference(self) -> Aggregate | None:
        """Score of the best workflow minus that of plain PPO, over the same episodes."""
        best, plain = self.best, self.plain_ppo
        if best is None or plain is None or not best.is_closing:
            return None
        ours, theirs = np.array(best.evaluated.returns), np.array(plain[0].returns)
        if ours.shape != theirs.shape:
            return None
        return mean_interval((ours - theirs).tolist(), self._bootstrap_seed)

    @property
    def episodes(self) -> int:
        """Episodes that count: base phase, training and evaluations of the search."""
        return sum(job.charged for job in self.jobs.values())

    @property
    def outside_episodes(self) -> int:
        """Episodes of the closing evaluation and of plain PPO."""
        return sum(job.episodes for job in self.jobs.values()) - self.episodes

    @property
    def cpu_s(self) -> float:
        """CPU seconds of all finished jobs, as far as they are known."""
        return math.fsum(
            job.result.get(name) or 0.0
            for job in self.jobs.values()
            if job.result is not None
            for name in ("cpu_s", "eval_cpu_s")
        )

    @property
    def train_episodes_per_s(self) -> float | None:
        """Episodes of training per second of training, over all finished jobs."""
        results = [job.result for job in self.jobs.values() if job.result is not None]
        timed = [result for result in results if result.get("wall_s")]
        seconds = math.fsum(result["wall_s"] for result in timed)
        return sum(result["train_episodes"] for result in timed) / seconds if seconds else None

    def count(self, state: str) -> int:
        """Number of jobs in a state."""
        return sum(job.state == state for job in self.jobs.values())

    def as_json(self) -> dict[str, JSON]:
        """The outcome as one JSON object."""
        best, effect, plain = self.best, self.order_effect, self.plain_ppo
        return {
            "run_dir": str(self.info.folder),
            "mode": self.info.mode,
            "task": self.info.config.task,
            "seed": self.info.config.seed,
            "stopped": self.stopped,
            "best": None if best is None else best.as_json(),
            "evaluated": len(self.ranking),
            "space_size": self.info.setup.space.size,
            "episodes": self.episodes,
            "total_episodes": self.info.config.total_episodes,
            "outside_episodes": self.outside_episodes,
            "train_episodes_per_s": self.train_episodes_per_s,
            "order_matters": effect.matters,
            "order_matters_reason": effect.reason,
            "uncontested_pairs": [list(pair) for pair in effect.uncontested],
            "contested_share": _known(best.evaluated.counts.contested_share) if best else None,
            "runner_up": self._runner_up(),
            "finalists": [one.as_json() for one in self.finalists],
            "plain_ppo": None if plain is None else _interval(plain[1]),
            "best_minus_plain_ppo": _interval(self.plain_difference),
            "cpu_s": self.cpu_s,
            "failed_jobs": self.count("failed"),
            "first_cause": self.first_cause,
            "files": [str(path) for path in self.files],
        }

    def _runner_up(self) -> JSON:
        if len(self.finalists) < 2:
            return None
        second = self.finalists[1]
        return {
            **second.as_json(),
            "differs": self.runner_up_differs,
            "difference": _interval(self.difference),
        }

    def _closing(self) -> dict[int, Evaluated]:
        """Closing evaluations by workflow id, unless a policy was trained further since."""
        job = next((job for job in self.jobs.values() if job.kind == "closing"), None)
        return {} if job is None else {one.workflow_id: one for one in evaluations_of(job)}

    @property
    def _bootstrap_seed(self) -> int:
        return job_seed(self.info.config.seed, "closing")


def with_files(outcome: Outcome, files: Sequence[Path]) -> Outcome:
    """The same outcome with the files of its report."""
    return replace(outcome, files=tuple(files))


def _interval(found: Aggregate | None) -> JSON:
    return None if found is None else {"score": found.value, "ci": [found.low, found.high]}


def _known(value: float) -> float | None:
    return None if math.isnan(value) else value
