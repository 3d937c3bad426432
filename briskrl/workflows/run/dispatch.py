"""Jobs from their lines in the ledger, and the order in which a search dispatches them.

Everything follows from the settings and the ledger, so a run that was killed goes on as if nothing
had happened.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np

from briskrl.orders.order_arrays import order_ids
from briskrl.workflows.distances import Distance, distances
from briskrl.workflows.run.evaluation_plan import EvaluationPlan
from briskrl.workflows.run.folder import JOBS
from briskrl.workflows.run.job import EvaluationJob, WorkflowJob
from briskrl.workflows.run.ledger import Account, JobRecord, Kind
from briskrl.workflows.run.results import choice_facts, restore_searcher
from briskrl.workflows.run.seeds import Stage, job_seed
from briskrl.workflows.run.setup import RunSetup
from briskrl.workflows.run.trainer_config import Draw
from briskrl.workflows.run.weights import Start, read_weights

BASE, JOINT, SWEEP = f"{JOBS}/base", f"{JOBS}/joint", f"{JOBS}/sweep"
PLAIN, CLOSING = f"{JOBS}/plain_ppo", f"{JOBS}/closing"


_DRAWS: Mapping[Kind, Draw] = {
    "base": "uniform",
    "joint": "focused",
    "plain": "uniform",
    "train": "fixed",
}
"""Which workflows the episodes of training get."""


def workflow_job_name(number: int, visit: int) -> str:
    """Name of the job that trains under a workflow."""
    return f"{JOBS}/wf_{number:03d}_v{visit}"


def base_record(setup: RunSetup) -> JobRecord:
    """The base phase."""
    episodes = setup.base_episodes
    return JobRecord(BASE, "base", cap=episodes, reserved=episodes)


def next_records(
    setup: RunSetup, jobs: Mapping[str, JobRecord], account: Account, count: int
) -> list[JobRecord]:
    """Up to `count` workflows to train next; none if the search has ended or has to wait."""
    searcher = restore_searcher(setup, jobs)
    known = dict(jobs)
    left = account.left
    found: list[JobRecord] = []
    while len(found) < count:
        cap = setup.budget.cap_for(left)
        choices = [] if cap is None else searcher.ask(1)
        if cap is None or not choices:
            break
        number = choices[0].workflow.id
        facts = choice_facts(
            choices[0],
            strategy=searcher.config.strategy,
            round_number=sum(job.kind == "train" for job in known.values()) + 1,
            left=left,
        )
        record = replace(_train_record(setup, known, number, cap), choice=facts)
        known[record.name] = record
        found.append(record)
        left -= record.reserved
    return found


def finetune_records(
    setup: RunSetup, jobs: Mapping[str, JobRecord], ids: Sequence[int], cap: int
) -> list[JobRecord]:
    """Training of these workflows from the joint policy."""
    return [replace(_train_record(setup, jobs, i, cap), start_from=JOINT) for i in ids]


def _train_record(
    setup: RunSetup, jobs: Mapping[str, JobRecord], number: int, cap: int
) -> JobRecord:
    earlier = [job for job in jobs.values() if job.kind == "train" and job.workflow_id == number]
    visit = len(earlier) + 1
    return JobRecord(
        workflow_job_name(number, visit),
        "train",
        workflow_id=number,
        visit=visit,
        start_from=_start_from(setup, jobs, number),
        cap=cap,
        cap_is_budget=cap < setup.budget.cap,
        reserved=cap + setup.budget.eval_episodes,
    )


def _start_from(setup: RunSetup, jobs: Mapping[str, JobRecord], number: int) -> str | None:
    """Whose weights training under a workflow begins with; its own if it was visited before."""
    done = [job for job in jobs.values() if job.kind == "train" and job.state == "done"]
    own = [job.name for job in done if job.workflow_id == number]
    if own:
        return own[-1]
    match setup.config.warm_start:
        case "base":
            return BASE if BASE in jobs else None
        case "last":
            return done[-1].name if done else None
        case "nearest":
            return _nearest(setup, done, number)
    return None


def _nearest(setup: RunSetup, done: Sequence[JobRecord], number: int) -> str | None:
    """The job of the most similar workflow; of equals, that with the smaller id."""
    latest = {job.workflow_id: job.name for job in done if job.workflow_id is not None}
    if not latest:
        return None
    ids = sorted(latest)
    order = np.array([setup.space.from_id(number).order], np.int64)
    others = np.array([setup.space.from_id(i).order for i in ids], np.int64)
    kernel = setup.config.searcher.kernel
    kind: Distance = "kendall"
    if kernel != "auto" and kernel != "weighted":
        kind = kernel
    far = distances(order, others, kind)[0]
    return latest[ids[int(far.argmin())]]


def job_of(setup: RunSetup, folder: Path, record: JobRecord) -> WorkflowJob | EvaluationJob:
    """The job of a line of the ledger.

    Raises:
        RunFolderError: The weights that it begins with are gone.
    """
    config, gpus = setup.config, setup.config.gpus_per_job
    if record.kind in ("sweep", "closing"):
        return _evaluation_job(setup, folder, record)
    workflow = None if record.workflow_id is None else str(record.workflow_id)
    plain = record.kind == "plain"
    stage: Stage = "train" if record.kind == "train" else "base"
    seed = job_seed(config.seed, stage, workflow_id=record.workflow_id or 0, visit=record.visit)
    return WorkflowJob(
        record.name,
        setup.train_config(workflow=workflow, seed=seed, plain=plain),
        setup.course(record.cap, draw=_DRAWS[record.kind], cap_is_budget=record.cap_is_budget),
        evaluation=_evaluation_after(setup, record),
        start=_start(folder, record),
        about=setup.about,
        log_episodes=config.log_episodes,
        num_gpus=gpus,
    )


def _evaluation_after(setup: RunSetup, record: JobRecord) -> EvaluationPlan | None:
    if record.kind == "train":
        return setup.evaluation([record.workflow_id or 0])
    if record.kind == "plain":
        # Plain PPO knows no workflows; compliance with any of them means nothing.
        first = int(order_ids(setup.space.orders_at(np.zeros(1, np.int64)))[0])
        return setup.evaluation([first], stage="closing", episodes=setup.config.final_eval_episodes)
    return None


def evaluation_record(
    name: str, kind: Kind, policies: Sequence[tuple[str, Sequence[int]]], *, reserved: int = 0
) -> JobRecord:
    """An evaluation of the policies of some jobs, each under its workflows."""
    listed = [[job, list(ids)] for job, ids in policies]
    return JobRecord(
        name, kind, start_from=policies[0][0], reserved=reserved, choice={"policies": listed}
    )


def _evaluation_job(setup: RunSetup, folder: Path, record: JobRecord) -> EvaluationJob:
    config = setup.config
    listed = record.choice["policies"]
    stage: Stage = "eval" if record.kind == "sweep" else "closing"
    episodes = config.sweep_episodes if record.kind == "sweep" else config.final_eval_episodes
    return EvaluationJob(
        record.name,
        setup.train_config(workflow=None, seed=0),
        tuple(read_weights(folder / job) for job, _ in listed),
        tuple(setup.evaluation(ids, stage=stage, episodes=episodes) for _, ids in listed),
        num_gpus=config.gpus_per_job,
    )


def _start(folder: Path, record: JobRecord) -> Start | None:
    if record.start_from is None:
        return None
    own = record.start_from.startswith(f"{JOBS}/wf_{record.workflow_id:03d}_v")
    return Start(read_weights(folder / record.start_from), with_optimizer=own)
