"""Training loops that can be measured in slices, and learning curves."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import closing
from dataclasses import dataclass, field
from time import process_time
from typing import TYPE_CHECKING

from briskrl.bench.stopwatch import Stopwatch, per_second

if TYPE_CHECKING:
    from pathlib import Path

    from briskrl.core.counters import Counters
    from briskrl.training.config import TrainConfig
    from briskrl.training.hooks import Hook
    from briskrl.training.recent_episodes import RecentEpisodes
    from briskrl.training.trainer import Trainer


class BenchTrainLoop:
    """The loop of `brisk train` between warm-up and the end, including its logs.

    Args:
        config: What to train.
        folder: The run folder to create.
        saves: Write checkpoints when they are due.
    """

    def __init__(self, config: TrainConfig, folder: Path, *, saves: bool = False) -> None:
        from briskrl.core.config import to_toml
        from briskrl.training.hooks import CheckpointHook, ReportHook
        from briskrl.training.recorder import RunRecorder
        from briskrl.training.reporter import SilentReporter
        from briskrl.training.resolve import complete
        from briskrl.training.storage.run_dir import RunDir
        from briskrl.training.trainer import Trainer

        config = complete(config)
        self.trainer = Trainer(config)
        run_dir = RunDir.create(
            folder,
            env=config.env,
            algo=config.algo,
            seed=config.seed,
            config_toml=to_toml(config),
        )
        self.run = RunRecorder(self.trainer, run_dir, SilentReporter())
        self.hooks: list[Hook] = [ReportHook(config.log_seconds)]
        if saves:
            steps, seconds = config.checkpoint_steps, config.checkpoint_seconds
            self.hooks.append(CheckpointHook(steps=steps, seconds=seconds))

    @property
    def recent(self) -> RecentEpisodes:
        """The most recent episodes."""
        return self.run.recent

    @property
    def engine(self) -> str:
        """Name of the engine that computes the networks."""
        return str(self.trainer.algo.engines.name)

    def iterate(self) -> None:
        """Run one iteration, record it and call the hooks."""
        self.run.record(self.trainer.iterate())
        for hook in self.hooks:
            hook(self.run)

    def prepare(self, from_step: int = 0) -> None:
        """Warm up, then train until updates have begun and `from_step` is reached."""
        from briskrl.training.warmup import warm_up

        warm_up(self.trainer)
        self.run.begin(0.0)
        counters = self.trainer.counters
        while counters.updates == 0 or counters.env_steps < from_step:
            self.iterate()

    def train_for(self, cpu_s: float) -> float:
        """Train for about `cpu_s` CPU seconds; returns steps per CPU second."""
        counters = self.trainer.counters
        first, begin = counters.env_steps, process_time()
        now = begin
        while now - begin < cpu_s:
            self.iterate()
            now = process_time()
        return (counters.env_steps - first) / (now - begin)

    def train_rounds(self, rounds: int) -> float:
        """Train whole rounds of collecting and learning; returns steps per CPU second."""
        return train_rounds(self.trainer.counters, self.iterate, rounds)

    def close(self) -> None:
        """Flush the logs and release everything."""
        self.run.close()
        self.run.folder.close()
        self.trainer.close()


def train_rounds(counters: Counters, iterate: Callable[[], object], rounds: int) -> float:
    """Iterate until updates have been done `rounds` times; returns steps per CPU second.

    Each round ends with its updates, so that all slices of an on-policy algorithm hold whole
    rollouts with the learning from them.
    """
    first, begin = counters.env_steps, process_time()
    for _ in range(rounds):
        updates = counters.updates
        while counters.updates == updates:
            iterate()
    return per_second(counters.env_steps - first, process_time() - begin)


@dataclass(frozen=True, slots=True)
class Arrival:
    """Cost of reaching a score."""

    steps: float
    wall_s: float
    cpu_s: float


@dataclass(slots=True)
class Curve:
    """A learning curve; all lists have the same length."""

    steps: list[int] = field(default_factory=list)
    """Transitions so far."""
    scores: list[float] = field(default_factory=list)
    """Mean greedy score of the current policy in new games."""
    wall_s: list[float] = field(default_factory=list)
    """Training alone, without warm-up and evaluation; likewise the CPU time."""
    cpu_s: list[float] = field(default_factory=list)
    updates: int = 0
    """Updates of the whole run."""

    def when(self, score: float) -> Arrival | None:
        """When a score was first reached; None if never."""
        for index, found in enumerate(self.scores):
            if found >= score:
                return self._interpolate(index, score)
        return None

    def _interpolate(self, index: int, score: float) -> Arrival:
        """Linear interpolation between point `index` and the one before.

        Nothing is known before the first point: a score reached there counts as reached then.
        """
        part = 1.0
        before = max(0, index - 1)
        if index:
            below, above = self.scores[before], self.scores[index]
            part = (score - below) / (above - below)
        columns = (self.steps, self.wall_s, self.cpu_s)
        return Arrival(*(float(at[before] + part * (at[index] - at[before])) for at in columns))


def learning_curve(config: TrainConfig, *, steps: int, points: int, games: int) -> Curve:
    """Train without a run folder and evaluate the policy at `points` times.

    Points are closer together at the beginning, where most is learned: the k-th of n comes after
    (k / n)^2 of all steps. Its games are the same for all configs with the same seed.
    """
    from briskrl.training.resolve import complete
    from briskrl.training.trainer import Trainer
    from briskrl.training.warmup import warm_up

    curve, watch = Curve(), Stopwatch()
    with closing(Trainer(complete(config))) as trainer:
        warm_up(trainer)
        counters = trainer.counters
        for point in range(1, points + 1):
            while counters.env_steps < steps * point**2 // points**2:
                with watch:
                    trainer.iterate()
            curve.steps.append(counters.env_steps)
            curve.wall_s.append(watch.wall_s)
            curve.cpu_s.append(watch.cpu_s)
            curve.scores.append(present_score(trainer, games, seed=1000 * config.seed + point))
        curve.updates = counters.updates
    return curve


def present_score(trainer: Trainer, games: int, seed: int) -> float:
    """Mean greedy score of the trainer's current policy in new games."""
    from briskrl.algos.registry import ALGOS
    from briskrl.core.registry import load_object
    from briskrl.training.evaluate import Agent, evaluate_agent

    config, spec = trainer.config, trainer.env.env_spec
    arrays = trainer.algo.state()["model"].arrays
    make = load_object(ALGOS.get(config.algo).policy)
    policy = make(config.algo_config, spec.obs, spec.action, arrays)
    agent = Agent(policy, config.env, config.env_config)
    return evaluate_agent(agent, episodes=games, seed=seed).mean_score
