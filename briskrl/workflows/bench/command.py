"""`brisk bench workflow`: what training under workflows costs beside plain PPO."""

from __future__ import annotations

from dataclasses import dataclass
from time import process_time
from typing import TYPE_CHECKING, Annotated, Literal

from msgspec import Meta

from briskrl.bench.command import BenchCommand, NumEnvs, Report, Seed, Slices
from briskrl.bench.compare import PairedComparison, estimate
from briskrl.bench.stopwatch import per_second

if TYPE_CHECKING:
    from briskrl.training.trainer import Trainer

DESCRIPTION = """\
Training on CAGE-2 with PPO, once under workflows (the workflow in the observation, compliance
counted, the bonus added) and once without, at equal network sizes.

  episodes_per_s        episodes trained per CPU second under workflows, updates included
  plain_episodes_per_s  the same without workflows
  cost_ratio            the first over the second, from pairs of turns; low and high are its 95 %
                        interval
  surrogate_share       CPU time of the Gaussian process over that of a whole default search

Both trainers take turns of a few rollouts each, so that a change of the machine's speed hits
both."""

EXAMPLES = """\
examples:
  brisk bench workflow
  brisk bench workflow --slices 40 --json
  brisk bench workflow --encoding pairwise --response-prob 0.5"""

SEARCH_EPISODES = 100_000
"""Episodes of a default search."""


@dataclass(frozen=True, slots=True)
class WorkflowBench:
    """Settings of `brisk bench workflow`."""

    num_envs: NumEnvs = 200
    """Environments stepped together."""
    update_steps: Annotated[int, Meta(ge=1, le=65_536)] = 50
    """Steps of each environment per rollout."""
    epochs: Annotated[int, Meta(ge=1, le=100)] = 4
    """Passes over every rollout."""
    minibatches: Annotated[int, Meta(ge=1, le=1024)] = 4
    """Minibatches per pass."""
    length: Annotated[int, Meta(ge=1, le=10_000)] = 100
    """Steps of an episode."""
    response_prob: Annotated[float, Meta(ge=0, le=1)] = 1.0
    """Probability that blue's action is carried out."""
    encoding: Literal["position", "pairwise", "rank"] = "position"
    """How the workflow is appended to observations."""
    drawn: bool = False
    """Draw a workflow for every episode, as joint training does; otherwise all have the same."""
    engine: Literal["auto", "fused", "torch"] = "fused"
    """Engine of both trainers."""
    rollouts: Annotated[int, Meta(ge=1, le=1000)] = 4
    """Rollouts per turn."""
    slices: Slices = 30
    """Pairs of turns."""
    search_rounds: Annotated[int, Meta(ge=5, le=1000)] = 60
    """Workflows that the search trains, for surrogate_share; more than a default search can."""
    seed: Seed = 0
    """Seed of everything."""


@dataclass(frozen=True, slots=True)
class WorkflowFigures:
    """Speeds in CPU time; medians over the turns."""

    episodes_per_s: float
    plain_episodes_per_s: float
    cost_ratio: float
    cost_ratio_low: float
    cost_ratio_high: float
    surrogate_share: float
    surrogate_s: float
    """CPU seconds of all choices of the search."""
    search_s: float
    """CPU seconds of training the episodes of a default search."""
    search_rounds: int
    num_envs: int
    update_steps: int
    engine: str
    slices: int


def measure_workflow(bench: WorkflowBench, report: Report) -> WorkflowFigures:
    """Measure both trainers in turns, then the choices of a search."""
    from contextlib import closing
    from math import log

    with (
        closing(_trainer(bench, workflows=True)) as ours,
        closing(_trainer(bench, workflows=False)) as plain,
    ):
        comparison = PairedComparison(
            plain=lambda: _turn(plain, bench), workflows=lambda: _turn(ours, bench)
        )
        report(f"training with and without workflows, {bench.slices} turns each")
        comparison.take_turns(bench.slices, warm_up=True)
        engine = ours.algo.engines.name
    rates = comparison.rates
    found = estimate([log(a / b) for a, b in zip(rates["workflows"], rates["plain"], strict=True)])
    report(f"choices of a search of {bench.search_rounds} workflows")
    surrogate_s = _search_seconds(bench)
    speed = comparison.median("workflows")
    search_s = SEARCH_EPISODES / speed
    return WorkflowFigures(
        episodes_per_s=speed,
        plain_episodes_per_s=comparison.median("plain"),
        cost_ratio=found.ratio,
        cost_ratio_low=found.low,
        cost_ratio_high=found.high,
        surrogate_share=surrogate_s / (surrogate_s + search_s),
        surrogate_s=surrogate_s,
        search_s=search_s,
        search_rounds=bench.search_rounds,
        num_envs=bench.num_envs,
        update_steps=bench.update_steps,
        engine=engine,
        slices=bench.slices,
    )


def _trainer(bench: WorkflowBench, *, workflows: bool) -> Trainer:
    from briskrl.training.config import TrainConfig
    from briskrl.training.resolve import complete
    from briskrl.training.trainer import Trainer
    from briskrl.training.warmup import warm_up

    settings = {"length": bench.length, "response_prob": bench.response_prob}
    under: dict[str, object] = {"task_config": settings, "encoding": bench.encoding}
    if not bench.drawn:
        under["workflow"] = "critical-first"
    config = TrainConfig(
        env="workflow:cage2" if workflows else "cage2",
        env_config=under if workflows else settings,
        algo="ppo",
        algo_config={
            "update_steps": bench.update_steps,
            "epochs": bench.epochs,
            "minibatch_size": bench.num_envs * bench.update_steps // bench.minibatches,
            "lr": 1e-3,
            "net": (64, 64),
        },
        num_envs=bench.num_envs,
        engine=bench.engine,
        seed=bench.seed,
    )
    trainer = Trainer(complete(config))
    warm_up(trainer, choose=bench.engine == "auto")
    return trainer


def _turn(trainer: Trainer, bench: WorkflowBench) -> float:
    """Episodes per CPU second over some rollouts with their updates."""
    from briskrl.envs.workflow.env import WorkflowVecEnv

    env = trainer.env
    begin = process_time()
    for _ in range(bench.rollouts):
        for _ in range(bench.update_steps):
            trainer.iterate()
        if isinstance(env, WorkflowVecEnv):
            env.drain_compliance()
    spent = process_time() - begin
    steps = bench.rollouts * bench.update_steps * bench.num_envs
    return per_second(steps / bench.length, spent)


def _search_seconds(bench: WorkflowBench) -> float:
    """CPU seconds of the choices of a search; scores of workflows are random."""
    import numpy as np

    from briskrl.orders.space import WorkflowSpace
    from briskrl.workflows.config import SearcherConfig
    from briskrl.workflows.history import OrderResult
    from briskrl.workflows.searcher import Searcher

    rng = np.random.default_rng(bench.seed)
    searcher = Searcher(WorkflowSpace("abcde"), SearcherConfig(), seed=bench.seed)
    begin = process_time()
    for _ in range(bench.search_rounds):
        for choice in searcher.ask(1):
            compliance = float(rng.uniform(0.9, 1.0))
            searcher.tell(
                OrderResult(
                    choice.workflow,
                    score=float(rng.normal(-80, 10)),
                    episodes=200,
                    compliance=compliance,
                    feasible=compliance >= 0.95,
                )
            )
    return process_time() - begin


COMMAND = BenchCommand(
    DESCRIPTION,
    EXAMPLES,
    WorkflowBench,
    measure_workflow,
    lambda bench: 2 * (bench.slices + 1) * bench.rollouts * 0.06 + 20,
    reports=True,
)
