"""Runs under workflows as text: titles, plans, jobs and summaries."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import PurePosixPath
from typing import TYPE_CHECKING, Any

from briskrl.core.format import format_columns, format_count, format_duration, format_figures

if TYPE_CHECKING:
    from briskrl.cluster.statistics import Aggregate
    from briskrl.workflows.run.folder import Mode, RunInfo
    from briskrl.workflows.run.ledger import JobRecord
    from briskrl.workflows.run.outcome import Finalist, Outcome
    from briskrl.workflows.run.setup import RunSetup

_WHAT = {
    "search": "search for the best workflow",
    "joint": "joint training under all workflows",
    "train": "training under one workflow",
    "ppo": "plain PPO",
}
_ENDINGS = {
    "finished": "finished",
    "failures": "stopped: too many jobs have failed",
    "killed": "the driver was killed",
    "running": "still running",
}
_KINDS = {
    "base": "base phase under random workflows",
    "joint": "joint training",
    "sweep": "evaluation under all workflows",
    "plain": "plain PPO",
    "closing": "closing evaluation of the best workflows",
}


def title(info: RunInfo, jobs: Mapping[str, JobRecord]) -> str:
    """What the run does."""
    setup, config = info.setup, info.config
    ended = sum(job.has_ended for job in jobs.values())
    again = f", {ended} jobs have ended before" if ended else ""
    lines = [
        f"{_WHAT[info.mode]} on {config.task} ({setup.space.size:,} orders of "
        f"{', '.join(setup.space.categories)}), {format_count(config.total_episodes)} episodes, "
        f"seed {config.seed}: {config.jobs} at a time ({config.executor_name}){again}, in "
        f"{info.folder}"
    ]
    if info.mode == "search":
        plan = setup.plan()
        lines.append(_cases(plan.worst_case, plan.best_case, plan.most_per_workflow))
        lines += [f"note: {warning}" for warning in plan.warnings]
    return "\n".join(lines)


def plan_text(setup: RunSetup, mode: Mode, plan: Mapping[str, Any]) -> str:
    """What a run is going to do."""
    config = setup.config
    rows = [
        ("task", f"{config.task}: {', '.join(setup.space.categories)}"),
        ("space", f"{setup.space.size:,} workflows"),
        ("episodes", f"{config.total_episodes:,} in all"),
    ]
    if mode == "joint":
        rows += [
            ("training", f"{plan['joint_episodes']:,} episodes under all workflows"),
            (
                "sweep",
                f"{plan['swept_workflows']} workflows, {plan['sweep_episodes']:,} episodes",
            ),
            (
                "fine-tuning",
                f"the best {plan['finetune_workflows']}, up to {plan['finetune_episodes']:,} "
                "episodes",
            ),
        ]
    elif mode in ("search", "train"):
        rows += [
            ("base phase", f"{plan['base_episodes']:,} episodes under random workflows"),
            (
                "per workflow",
                f"{plan['least_per_workflow']:,} to {plan['most_per_workflow']:,} episodes, "
                f"{plan['eval_episodes']:,} of them for evaluation",
            ),
            ("worst case", f"{plan['worst_case']} workflows evaluated"),
            ("best case", f"{plan['best_case']} workflows evaluated"),
        ]
    if mode not in ("train", "ppo"):
        rows.append(("closing", f"{config.final_eval_episodes:,} episodes of each of the best 5"))
        plain = f"{config.total_episodes:,} episodes" if plan["plain_ppo"] else "not trained"
        rows.append(("plain PPO", plain))
    rows.append(
        ("jobs", f"{config.jobs} at a time, {setup.threads} threads each ({config.executor_name})")
    )
    notes = "".join(f"\nnote: {warning}" for warning in plan.get("warnings", ()))
    return f"{_WHAT[mode]}\n{format_columns(rows)}{notes}"


def job_line(info: RunInfo, job: JobRecord) -> str:
    """The end of a job."""
    name = PurePosixPath(job.name).name
    if job.workflow_id is None:
        what = _KINDS[job.kind]
    else:
        what = str(info.setup.space.from_id(job.workflow_id))
    if job.state == "failed":
        return f"{name}  {what}  failed: {job.cause}"
    assert job.result is not None
    reason = job.result.get("stop_reason")
    ended = f"{reason} after " if reason else ""
    episodes = f"{ended}{job.episodes:,} episodes"
    if job.kind == "train":
        return f"{name}  {what}  {_score_words(info, job)}, {episodes}"
    return f"{name}  {what}  {episodes}"


def _score_words(info: RunInfo, job: JobRecord) -> str:
    from briskrl.workflows.run.results import evaluations_of
    from briskrl.workflows.run.stop_rules import obeys

    (one,) = evaluations_of(job)
    obeyed = obeys(one.counts, info.config.stop, info.setup.threshold)
    return (
        f"score {format_figures(one.score)} +- {format_figures(one.score_se)}, "
        f"{_compliance(one.counts.compliance, one.counts.contested_compliance)}"
        f"{'' if obeyed else ' (not obeyed)'}"
    )


def summary(outcome: Outcome) -> str:
    """What a run has found."""
    info = outcome.info
    ending = _ENDINGS.get(outcome.stopped, "stopped and saved")
    lines = [
        f"{_WHAT[info.mode]} on {info.config.task}: {ending}, {outcome.episodes:,} episodes"
        + (f" and {outcome.outside_episodes:,} outside" if outcome.outside_episodes else "")
        + f", {format_duration(outcome.cpu_s)} of CPU time"
    ]
    if outcome.first_cause is not None:
        lines.append(f"  first failure  {outcome.first_cause}")
    lines += _finalists(outcome)
    if outcome.finalists and info.mode != "train":
        lines.append(f"  order          {outcome.order_effect.reason}")
    lines += _plain(outcome)
    if outcome.files:
        lines.append(f"  files          {', '.join(str(path) for path in outcome.files)}")
    return "\n".join(lines)


def _finalists(outcome: Outcome) -> list[str]:
    best = outcome.best
    if best is None:
        return ["  best           no workflow was evaluated"]
    lines = [f"  best           {best.workflow}  (id {best.workflow.id})"]
    lines.append(f"                 {_score(best)}")
    if not best.ranked.feasible:
        lines.append(
            "                 not obeyed: this is the most compliant workflow, not a recommendation"
        )
    for place, one in enumerate(outcome.finalists[1:], 2):
        lines.append(f"  {place}.             {one.workflow}  {_score(one)}")
    differs = outcome.runner_up_differs
    if differs is not None and outcome.difference is not None:
        words = "differs from" if differs else "cannot be told from"
        lines.append(
            f"  first, second  the best {words} the second best: difference "
            f"{interval_text(outcome.difference)} over the same episodes"
        )
    return lines


def _plain(outcome: Outcome) -> list[str]:
    plain = outcome.plain_ppo
    if plain is None:
        return []
    lines = [f"  plain PPO      {interval_text(plain[1])} with as many episodes"]
    if outcome.plain_difference is not None:
        lines.append(
            f"                 best workflow minus plain PPO: "
            f"{interval_text(outcome.plain_difference)}"
        )
    return lines


def _score(one: Finalist) -> str:
    counts = one.evaluated.counts
    episodes = f"{counts.episodes:,} {'closing' if one.is_closing else 'evaluation'} episodes"
    words = _compliance(counts.compliance, counts.contested_compliance)
    return f"score {interval_text(one.interval)}, {words}, {episodes}"


def _compliance(pooled: float, contested: float) -> str:
    return f"compliance {_share(pooled)} (contested {_share(contested)})"


def interval_text(found: Aggregate) -> str:
    """A mean with its interval."""
    if found.low is None or found.high is None:
        return format_figures(found.value)
    return (
        f"{format_figures(found.value)} [{format_figures(found.low)}, {format_figures(found.high)}]"
    )


def _share(value: float) -> str:
    return "unknown" if value != value else f"{value:.3f}"


def _cases(worst: int, best: int, most: int) -> str:
    return f"the episodes suffice for {worst} to {best} workflows (at most {most:,} episodes each)"
