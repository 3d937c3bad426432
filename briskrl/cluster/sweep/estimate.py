"""How long a sweep will take, from a few seconds of training some of its configs."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import closing
from dataclasses import dataclass, replace
from time import perf_counter

from briskrl.bench.steady_config import steady_config
from briskrl.cluster.sweep.folder import SweepInfo
from briskrl.cluster.sweep.plan import Plan, cpus_per_run, trial_config
from briskrl.core.cpu import usable_cores
from briskrl.core.types import JSON
from briskrl.training.config import TrainConfig
from briskrl.training.trainer import Trainer
from briskrl.training.warmup import warm_up

CALIBRATION_S = 6.0
SAMPLE = 3
"""Trials of a grid that are measured; values at both ends may differ much in speed."""
_PATIENCE_S = 30.0
"""Longest wait for an update of a slow environment."""


@dataclass(frozen=True, slots=True)
class Estimate:
    """What a sweep will run, and for how long; without evaluations, starts and lost attempts."""

    trials: int
    runs: int
    """Runs of all trials, and reruns of the best one."""
    jobs: int | None
    """Runs at the same time; None if that depends on a Ray cluster."""
    steps_per_s: tuple[float, ...]
    """Of some trials, evenly spread over the grid, with learning, each running alone."""
    run_s: float | None
    """Mean seconds of their runs; None if the budget is a number of episodes."""
    total_s: float | None
    """Seconds of everything; None if unknown."""

    def as_json(self) -> dict[str, JSON]:
        """The record as a JSON object."""
        return {name: getattr(self, name) for name in self.__slots__}


def count_trials(info: SweepInfo, plan: Plan) -> int:
    """Trials of a sweep."""
    return len(plan.trials) if info.settings.search is None else info.settings.num_trials


def sample_configs(info: SweepInfo, plan: Plan) -> list[TrainConfig]:
    """Configs to measure: some of a grid, the first and the last included.

    Of a search it is what all trials have in common.
    """
    count = len(plan.trials)
    if not count:
        return [info.config]
    picked = {round(part * (count - 1) / (SAMPLE - 1)) for part in range(SAMPLE)}
    return [trial_config(info, plan.trials[index]) for index in sorted(picked)]


def estimate(info: SweepInfo, plan: Plan, *, seconds: float = CALIBRATION_S) -> Estimate:
    """Measure the speed of some configs, and compute how long the sweep will take.

    Args:
        info: The sweep.
        plan: Its plan.
        seconds: Shortest duration of all measurements, without compilation.

    Raises:
        BriskError: A config cannot be trained.
    """
    configs = sample_configs(info, plan)
    speeds = tuple(_measure_speed(config, seconds / len(configs)) for config in configs)
    trials = count_trials(info, plan)
    runs = trials * len(info.seeds) + info.settings.confirm_seeds
    jobs = info.executor.jobs
    if jobs is None and info.executor.executor == "local":
        jobs = max(1, usable_cores() // cpus_per_run(info, plan))
    run_s = _mean_seconds(configs, speeds)
    total_s = None
    if run_s is not None and jobs is not None:
        total_s = -(-runs // jobs) * run_s
    return Estimate(trials, runs, jobs, speeds, run_s, total_s)


def _mean_seconds(configs: Sequence[TrainConfig], speeds: Sequence[float]) -> float | None:
    """Mean duration of runs with these speeds; None if one of them has no number of steps."""
    steps = [config.budget.steps for config in configs]
    known = [count / speed for count, speed in zip(steps, speeds, strict=True) if count is not None]
    return sum(known) / len(known) if len(known) == len(steps) else None


def _measure_speed(config: TrainConfig, seconds: float) -> float:
    """Steps per second, from an update to an update."""
    with closing(Trainer(steady_config(replace(config, run_dir=None)))) as trainer:
        # Jobs do not choose their engine by measuring, either.
        warm_up(trainer, choose=False)
        _train_until_update(trainer, 0.0)
        steps, begin = trainer.counters.env_steps, perf_counter()
        _train_until_update(trainer, seconds)
        return (trainer.counters.env_steps - steps) / (perf_counter() - begin)


def _train_until_update(trainer: Trainer, seconds: float) -> None:
    """Train for some seconds, and on to the next update unless that takes very long."""
    begin, counters = perf_counter(), trainer.counters
    while True:
        updates = counters.updates
        trainer.iterate()
        spent = perf_counter() - begin
        if spent >= seconds and (counters.updates > updates or spent > seconds + _PATIENCE_S):
            return
