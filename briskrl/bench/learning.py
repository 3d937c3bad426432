"""How a run learns: its score in fresh games at several times, and the cost of training so far."""

from __future__ import annotations

from contextlib import closing
from dataclasses import dataclass, field

from briskrl.algos.registry import ALGOS
from briskrl.bench.stopwatch import Stopwatch
from briskrl.core.registry import load_object
from briskrl.training.config import TrainConfig
from briskrl.training.evaluate import Agent, evaluate_agent
from briskrl.training.resolve import complete
from briskrl.training.trainer import Trainer
from briskrl.training.warmup import warm_up


@dataclass(slots=True)
class Curve:
    """One run at several times; all lists are of the same length."""

    steps: list[int] = field(default_factory=list)
    """Transitions so far."""
    scores: list[float] = field(default_factory=list)
    """Mean over fresh games of the policy as it is then, without exploration."""
    wall_s: list[float] = field(default_factory=list)
    """Training alone, without warm-up and games, as for the CPU time."""
    cpu_s: list[float] = field(default_factory=list)
    updates: int = 0
    """Over the whole run."""

    def when(self, score: float) -> Arrival | None:
        """When a score was first reached; None if never."""
        for index, found in enumerate(self.scores):
            if found >= score:
                return self._between(index, score)
        return None

    def _between(self, index: int, score: float) -> Arrival:
        """The moment before point `index` at which the straight line from the last one got there.

        Nothing is known before the first point, so whoever has it there got there then.
        """
        part = 1.0
        before = max(0, index - 1)
        if index:
            below, above = self.scores[before], self.scores[index]
            part = (score - below) / (above - below)
        columns = (self.steps, self.wall_s, self.cpu_s)
        return Arrival(*(float(at[before] + part * (at[index] - at[before])) for at in columns))


@dataclass(frozen=True, slots=True)
class Arrival:
    """What it took to reach a score."""

    steps: float
    wall_s: float
    cpu_s: float


def learning_curve(config: TrainConfig, *, steps: int, points: int, games: int) -> Curve:
    """Train without a run folder, and let the policy play `points` times on the way.

    Points lie closer together at the beginning, where most is learnt: the k-th of n comes after
    (k / n)^2 of all steps. Its games are the same for all configs with the same seed.
    """
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
    """Mean score of the present policy in fresh games, greedy."""
    config, spec = trainer.config, trainer.env.env_spec
    arrays = trainer.algo.state()["model"].arrays
    make = load_object(ALGOS.get(config.algo).policy)
    policy = make(config.algo_config, spec.obs, spec.action, arrays)
    agent = Agent(policy, config.env, config.env_config)
    return evaluate_agent(agent, episodes=games, seed=seed).mean_score
