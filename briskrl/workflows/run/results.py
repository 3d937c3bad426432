"""What the jobs of a run have found out: scores of workflows, and the search made of them."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from briskrl.cluster.statistics import Aggregate, aggregate, mean
from briskrl.core.types import JSON
from briskrl.workflows.choice import Candidate, Choice
from briskrl.workflows.history import OrderResult
from briskrl.workflows.run.evaluation_plan import Evaluated
from briskrl.workflows.run.ledger import JobRecord
from briskrl.workflows.run.setup import RunSetup
from briskrl.workflows.run.stop_rules import obeys
from briskrl.workflows.search_state import SavedResult
from briskrl.workflows.searcher import Searcher

RESAMPLES = 10_000
"""Samples of a bootstrap interval."""


@dataclass(frozen=True, slots=True)
class Scored:
    """A workflow that was evaluated, or whose job has failed."""

    workflow_id: int
    job: str
    """Whose policy was evaluated."""
    kind: str
    visit: int
    evaluated: Evaluated | None
    """None if the job has failed."""


def scored_workflows(jobs: Iterable[JobRecord]) -> list[Scored]:
    """All evaluations of the search, and failures, in the order of the jobs."""
    found: list[Scored] = []
    for job in jobs:
        if job.kind == "train" and job.has_ended:
            assert job.workflow_id is not None
            results = evaluations_of(job)
            one = results[0] if results else None
            found.append(Scored(job.workflow_id, job.name, job.kind, job.visit, one))
        elif job.kind == "sweep" and job.state == "done":
            policy = job.start_from or job.name
            found += [
                Scored(one.workflow_id, policy, job.kind, 0, one) for one in evaluations_of(job)
            ]
    return found


def evaluations_of(job: JobRecord) -> list[Evaluated]:
    """The evaluations of a job; none unless it is done."""
    if job.state != "done" or job.result is None:
        return []
    return [Evaluated.from_json(one) for one in job.result["evaluations"]]


def order_result(setup: RunSetup, scored: Scored) -> OrderResult:
    """What the search gets to know."""
    workflow, one = setup.space.from_id(scored.workflow_id), scored.evaluated
    if one is None:
        return OrderResult(workflow, math.nan, failed=True)
    return OrderResult(
        workflow,
        score=one.score,
        episodes=one.counts.episodes,
        score_se=one.score_se,
        compliance=one.counts.compliance,
        contested_share=one.counts.contested_share,
        feasible=obeys(one.counts, setup.config.stop, setup.threshold),
        # The policy was trained further since an earlier result.
        replaces_earlier=True,
    )


def base_pairs(jobs: Iterable[JobRecord]) -> NDArray[np.int64] | None:
    """How often pairs of categories were open together in the base phase or joint training."""
    for job in jobs:
        if job.kind in ("base", "joint") and job.state == "done" and job.result is not None:
            return np.array(job.result["pairs"], np.int64)
    return None


def restore_searcher(setup: RunSetup, jobs: Mapping[str, JobRecord]) -> Searcher:
    """The search that has chosen the jobs so far and knows their results.

    It depends on the ledger alone, so a run that was killed chooses as if nothing had happened.
    """
    records = list(jobs.values())
    pairs, config = base_pairs(records), setup.searcher_config
    if pairs is None and config.kernel == "weighted":
        # Nothing is chosen before the pairs are counted.
        config = replace(config, kernel="kendall")
    fresh = Searcher(
        setup.space,
        config,
        seed=setup.config.seed,
        pair_counts=None if pairs is None else pairs.tolist(),
    )
    asked = [job for job in records if job.kind == "train"]
    results = [order_result(setup, scored) for scored in scored_workflows(records)]
    state = fresh.state()
    state["asked"] = len(asked)
    state["last"] = asked[-1].workflow_id if asked else None
    state["pending"] = [job.workflow_id for job in asked if not job.has_ended]
    state["results"] = [_as_json(SavedResult.of(result)) for result in results]
    return Searcher.from_state(state)


def _as_json(saved: SavedResult) -> JSON:
    return {name: getattr(saved, name) for name in SavedResult.__dataclass_fields__}


def choice_facts(choice: Choice, *, strategy: str, round_number: int, left: int) -> dict[str, JSON]:
    """A choice as a row of search.csv."""
    facts: dict[str, JSON] = {
        "round": round_number,
        "strategy": strategy,
        "selected_id": choice.workflow.id,
        "phase": choice.phase,
        "remaining_episodes": left,
    }
    model = choice.model
    if model is None:
        return facts
    chosen = model.chosen
    facts |= {
        "kernel": model.kernel,
        "length_scale": model.length_scale,
        "noise": model.noise,
        "n_obs": model.observations,
        "pending": model.pending,
        "mean": chosen.mean,
        "std": chosen.std,
        "beta": model.beta,
        "acquisition": chosen.acquisition,
        "exploration": model.beta * chosen.std,
        "admissible": int(chosen.admissible),
    }
    facts |= {f"top{place}": _candidate(one) for place, one in enumerate(model.top, 1)}
    return facts


def _candidate(one: Candidate) -> str:
    return f"{one.id}:{one.mean!r}:{one.std!r}:{one.acquisition!r}"


def mean_interval(returns: Iterable[float], seed: int) -> Aggregate:
    """The mean of episodes with its 95 % bootstrap interval."""
    return aggregate(list(returns), mean, resamples=RESAMPLES, seed=seed % 2**32)


def latest_per_workflow(scored: Iterable[Scored]) -> dict[int, Scored]:
    """The last successful evaluation of every workflow."""
    return {one.workflow_id: one for one in scored if one.evaluated is not None}
