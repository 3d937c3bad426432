"""What the CSV files of a run hold."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping
from itertools import combinations
from pathlib import Path

import numpy as np

from briskrl.core.types import JSON
from briskrl.workflows.run import tables
from briskrl.workflows.run.counts import Counts
from briskrl.workflows.run.evaluation_plan import Evaluated
from briskrl.workflows.run.ledger import JobRecord
from briskrl.workflows.run.results import (
    evaluations_of,
    latest_per_workflow,
    restore_searcher,
    scored_workflows,
)
from briskrl.workflows.run.setup import RunSetup
from briskrl.workflows.run.stop_rules import obeys
from briskrl.workflows.run.tables import GrowingTable, read_table, write_table

UPDATES, EPISODES = "updates.csv", "episodes.csv"
WORKFLOWS, SEARCH, PAIRS = "workflows.csv", "search.csv", "pairs.csv"
EXPOSURE, SWEEP = "exposure.csv", "sweep.csv"


class RunTables:
    """The CSV files of a run, to be continued by its driver.

    Rows of updates and episodes are appended as they come; the other files follow from the ledger
    and are written as a whole.
    """

    def __init__(self, folder: Path, setup: RunSetup) -> None:
        self._folder, self._setup = folder, setup
        self._seen = {row["job_id"]: int(row["update"]) for row in read_table(folder / UPDATES)}
        """The last update of every job, because a job that continues repeats some."""
        self._updates = GrowingTable(folder / UPDATES, tables.UPDATE_COLUMNS)
        self._episodes: GrowingTable | None = None
        if setup.config.log_episodes:
            self._episodes = GrowingTable(folder / EPISODES, tables.EPISODE_COLUMNS)

    def add_update(self, job: JobRecord, values: Mapping[str, JSON]) -> None:
        """Add an update of a job, unless it is there already."""
        number = int(values["update"])
        if number <= self._seen.get(job.name, 0):
            return
        self._seen[job.name] = number
        self._updates.add([update_row(self._setup, job, values)])
        if self._episodes is not None:
            self._episodes.add(_episode_rows(job, values))

    def write_search(self, jobs: Mapping[str, JobRecord]) -> None:
        """Write the choices of the search."""
        rows = [job.choice for job in jobs.values() if job.kind == "train" and job.choice]
        write_table(self._folder / SEARCH, tables.SEARCH_COLUMNS, rows)

    def write_results(self, jobs: Mapping[str, JobRecord]) -> None:
        """Write what follows from the results; at the end of a job."""
        self.flush()
        setup, folder = self._setup, self._folder
        trained = [job for job in jobs.values() if job.kind == "train" and job.has_ended]
        write_table(
            folder / WORKFLOWS, tables.WORKFLOW_COLUMNS, (workflow_row(setup, j) for j in trained)
        )
        latest = latest_per_workflow(scored_workflows(jobs.values()))
        found = [one.evaluated for one in latest.values() if one.evaluated is not None]
        write_table(folder / PAIRS, tables.PAIR_COLUMNS, pair_rows(setup, found))
        write_table(folder / EXPOSURE, tables.EXPOSURE_COLUMNS, _exposure_rows(setup, found))
        if any(job.kind == "sweep" and job.state == "done" for job in jobs.values()):
            write_table(folder / SWEEP, tables.SWEEP_COLUMNS, _sweep_rows(setup, jobs))

    def flush(self) -> None:
        """Write what is buffered."""
        self._updates.flush()
        if self._episodes is not None:
            self._episodes.flush()

    def close(self) -> None:
        """Write what is buffered and close the files."""
        self._updates.close()
        if self._episodes is not None:
            self._episodes.close()


def update_row(setup: RunSetup, job: JobRecord, values: Mapping[str, JSON]) -> dict[str, JSON]:
    """A row of updates.csv."""
    counts = Counts.from_json(values["counts"])
    return {
        **values["figures"],
        **_named(setup, job),
        "update": values["update"],
        "env_steps": values["env_steps"],
        "episodes": counts.episodes,
        "total_episodes": values["total_episodes"],
        "env_return": counts.mean_return,
        "bonus": counts.mean_bonus,
        "total_return": counts.mean_return + counts.mean_bonus,
        "compliance_macro": values["macro_compliance"],
        "idle_per_episode": counts.idle_per_episode,
        "lambda": values["lambda"],
        **_compliance(counts),
    }


def workflow_row(setup: RunSetup, job: JobRecord) -> dict[str, JSON]:
    """A row of workflows.csv."""
    row = {
        **_named(setup, job),
        "start_from": job.start_from or "new",
        "status": job.state,
        "stop_reason": "error" if job.state == "failed" else None,
        "train_episodes": job.episodes,
    }
    found = evaluations_of(job)
    if not found or job.result is None:
        return row
    one = found[0]
    row |= {name: job.result[name] for name in ("stop_reason", "train_episodes", "eval_episodes")}
    row["seconds"] = (job.result.get("wall_s") or 0.0) + job.result["eval_s"]
    return row | _score(setup, one)


def pair_rows(setup: RunSetup, found: Iterable[Evaluated]) -> Iterator[dict[str, JSON]]:
    """How often two categories were open at a judged fix, over all evaluations."""
    found = list(found)
    matrix = sum((np.array(one.pairs) for one in found), np.zeros((setup.space.m,) * 2, np.int64))
    judged = sum(one.counts.judged for one in found)
    for i, j in combinations(range(setup.space.m), 2):
        yield {
            "category_i": setup.space.categories[i],
            "category_j": setup.space.categories[j],
            "contested_steps": int(matrix[i, j]),
            "share": int(matrix[i, j]) / judged if judged else math.nan,
        }


def _named(setup: RunSetup, job: JobRecord) -> dict[str, JSON]:
    number = job.workflow_id
    return {
        "job_id": job.name,
        "workflow_id": number,
        "workflow": None if number is None else str(setup.space.from_id(number)),
        "visit": job.visit,
    }


def _compliance(counts: Counts) -> dict[str, JSON]:
    return {
        "compliance_pooled": counts.compliance,
        "compliance_contested": counts.contested_compliance,
        "contested_share": counts.contested_share,
        "judged_per_episode": counts.judged_per_episode,
    }


def _score(setup: RunSetup, one: Evaluated) -> dict[str, JSON]:
    return {
        "score": one.score,
        "score_se": one.score_se,
        "feasible": int(obeys(one.counts, setup.config.stop, setup.threshold)),
        **_compliance(one.counts),
    }


def _episode_rows(job: JobRecord, values: Mapping[str, JSON]) -> Iterator[dict[str, JSON]]:
    first = int(values["total_episodes"]) - len(values["episodes"])
    names = (
        *("env", "workflow_id", "length", "env_return", "bonus"),
        *("n_ok", "n_judged", "n_idle", "n_contested"),
    )
    for number, row in enumerate(values["episodes"], first + 1):
        facts = dict(zip(names, row, strict=True))
        yield {"job_id": job.name, "phase": job.kind, "episode": number, **facts}


def _exposure_rows(setup: RunSetup, found: Iterable[Evaluated]) -> Iterator[dict[str, JSON]]:
    for one in found:
        for name, (share, length, spells) in zip(setup.space.categories, one.exposure, strict=True):
            yield {
                "workflow_id": one.workflow_id,
                "category": name,
                "open_share": share,
                "mean_spell": length,
                "spells": spells,
            }


def _sweep_rows(setup: RunSetup, jobs: Mapping[str, JobRecord]) -> Iterator[dict[str, JSON]]:
    """The sweep of a joint policy, with what the surrogate expects."""
    swept = {n: j for n, j in jobs.items() if j.kind in ("joint", "sweep")}
    searcher = restore_searcher(setup, swept)
    model = searcher.model
    for one in scored_workflows(swept.values()):
        assert one.evaluated is not None
        flow = setup.space.from_id(one.workflow_id)
        row: dict[str, JSON] = {
            "workflow_id": one.workflow_id,
            "workflow": str(flow),
            "episodes": one.evaluated.counts.episodes,
            **_score(setup, one.evaluated),
        }
        if model is not None:
            seen = model.predict(np.array([flow.order], np.int64))
            row |= {"mean": float(seen.mean[0]), "std": float(seen.std[0])}
        yield row
