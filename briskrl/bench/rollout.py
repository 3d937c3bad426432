"""`brisk bench rollout`: overhead of collecting a rollout beyond acting and stepping.

A rollout is collected as in training. Then the same calls of the policy are repeated alone on the
recorded observations, and the same environment steps alone from the state at the start of the
rollout. All three must produce the same actions and observations.
"""

from __future__ import annotations

from dataclasses import dataclass
from statistics import fmean, median
from time import process_time
from typing import TYPE_CHECKING, Annotated, Final, Literal, NamedTuple

from msgspec import Meta

from briskrl.bench.command import BenchCommand, NumEnvs, Seconds, Seed, Slices
from briskrl.bench.compare import PairedComparison
from briskrl.bench.stopwatch import per_second
from briskrl.core.errors import BriskError

if TYPE_CHECKING:
    from briskrl.core.types import StepSlot
    from briskrl.memory.base import RolloutMemory
    from briskrl.training.config import TrainConfig
    from briskrl.training.trainer import Trainer

OBS: Final = "flood"
FIRST_ROLLOUTS = 8
"""Rollouts to train before measuring, so that games are past their first moves."""

DESCRIPTION = """\
Cost of collecting a rollout of Snake (flood observations) with PPO's policy, as training does it,
relative to the necessary calls alone: acting on the same observations, and stepping the same games
with the same actions.

  rollout_cost_ratio   CPU time of collecting over that of acting alone plus stepping alone

The three alternate, rollout by rollout, from the same state, and must produce the same actions and
observations, or the benchmark fails."""

EXAMPLES = """\
examples:
  brisk bench rollout
  brisk bench rollout --num-envs 4096 --slices 25 --json"""


@dataclass(frozen=True, slots=True)
class RolloutBench:
    """Settings of `brisk bench rollout`."""

    num_envs: NumEnvs = 1024
    """Games stepped together."""
    update_steps: Annotated[int, Meta(ge=1, le=65_536)] = 32
    """Steps of each game per rollout."""
    slices: Slices = 9
    """Measurements; the figures are medians over them."""
    engine: Literal["auto", "fused", "torch"] = "auto"
    """Engine that computes the policy."""
    seconds: Seconds = 1.0
    """CPU seconds per measurement."""
    seed: Seed = 0
    """Seed of games and networks."""


@dataclass(frozen=True, slots=True)
class RolloutFigures:
    """CPU time of collecting and of its parts alone, medians over the slices."""

    rollout_cost_ratio: float
    """Collecting over acting alone plus stepping alone."""
    collect_us: float
    """Per vector step, as are the next two."""
    act_us: float
    env_us: float
    steps_per_cpu_s: float
    """Transitions collected."""
    env: str
    obs: str
    num_envs: int
    update_steps: int
    rollouts: int
    """Rollouts measured."""
    slices: int


class StepCost(NamedTuple):
    """CPU seconds per vector step."""

    collect: float
    act: float
    step: float


def measure_rollout(bench: RolloutBench) -> RolloutFigures:
    """Measure collecting, acting and stepping in turns.

    Raises:
        BriskError: Acting or stepping alone had another result than collecting.
    """
    from briskrl.training.trainer import Trainer

    trainer = Trainer(_config(bench))
    try:
        trial = RolloutTrial(trainer, bench.update_steps)
        trial.take_turn()
        costs = [trial.measure(bench.seconds) for _ in range(bench.slices)]
    finally:
        trainer.close()
    collect = median(cost.collect for cost in costs)
    return RolloutFigures(
        rollout_cost_ratio=median(cost.collect / (cost.act + cost.step) for cost in costs),
        collect_us=1e6 * collect,
        act_us=1e6 * median(cost.act for cost in costs),
        env_us=1e6 * median(cost.step for cost in costs),
        steps_per_cpu_s=bench.num_envs / collect,
        env="snake",
        obs=OBS,
        num_envs=bench.num_envs,
        update_steps=bench.update_steps,
        rollouts=trial.comparison.turns - 1,
        slices=bench.slices,
    )


def _config(bench: RolloutBench) -> TrainConfig:
    from briskrl.algos.ppo.config import PPOConfig
    from briskrl.envs.snake.config import SnakeConfig
    from briskrl.training.config import TrainConfig
    from briskrl.training.resolve import complete

    return complete(
        TrainConfig(
            env="snake",
            algo="ppo",
            engine=bench.engine,
            seed=bench.seed,
            num_envs=bench.num_envs,
            env_config=SnakeConfig(obs=OBS),
            algo_config=PPOConfig(update_steps=bench.update_steps),
        )
    )


class RolloutTrial:
    """A trainer between two rollouts, and spare rows to repeat the calls of a rollout into."""

    def __init__(self, trainer: Trainer, steps: int) -> None:
        from briskrl.memory.rollout import RolloutBuffer
        from briskrl.training.warmup import warm_up

        assert isinstance(trainer.memory, RolloutBuffer)
        self.memory = trainer.memory
        self._trainer = trainer
        self._steps = steps
        spec, num_envs = trainer.env.env_spec, trainer.config.num_envs
        spare = RolloutBuffer(spec=spec, num_envs=num_envs, steps=steps, reuse=0)
        self._repeated = _slots(spare, steps)
        self._slots = _slots(self.memory, steps)
        self.memory.clear()
        warm_up(trainer)
        for _ in range(FIRST_ROLLOUTS * steps):
            trainer.iterate()
        self._games = trainer.env.get_state()
        self._streams = trainer.streams.state()
        self.comparison = PairedComparison(collect=self._collect, act=self._act, step=self._step)
        """Vector steps per CPU second."""

    def take_turn(self) -> None:
        """Collect the next rollout, then measure collecting it again, acting alone and stepping.

        All three then repeat calls that were made before, so that none of them has the cost of the
        first time alone.
        """
        self._games = self._trainer.env.get_state()
        self._streams = self._trainer.streams.state()
        self._collect()
        self.comparison.take_turn()
        self._check()
        self.memory.next_rollout()

    def measure(self, seconds: float) -> StepCost:
        """Mean cost over turns that take about `seconds` of CPU time together."""
        rates, first, spent = self.comparison.rates, self.comparison.turns, 0.0
        while spent < seconds:
            self.take_turn()
            spent += sum(self._steps / rates[name][-1] for name in rates)
        return StepCost(*(fmean(1 / rate for rate in rates[name][first:]) for name in rates))

    def _collect(self) -> float:
        self._trainer.streams.load_state(self._streams)
        self._set_games()
        # The row that is acted on first is kept.
        self.memory.clear()
        collect = self._trainer.collector.collect
        begin = process_time()
        for _ in range(self._steps):
            collect()
        return self._rate(begin)

    def _set_games(self) -> None:
        self._trainer.env.set_state(self._games)
        self._trainer.env.drain_stats()

    def _act(self) -> float:
        self._trainer.streams.load_state(self._streams)
        act, counters = self._trainer.algo.act, self._trainer.counters
        begin = process_time()
        for slot, again in zip(self._slots, self._repeated, strict=True):
            act(slot.before.obs, slot.before.mask, counters, again.decision)
        return self._rate(begin)

    def _step(self) -> float:
        self._set_games()
        step_into = self._trainer.env.step_into
        begin = process_time()
        for slot, again in zip(self._slots, self._repeated, strict=True):
            step_into(slot.decision.action, again.after)
        return self._rate(begin)

    def _rate(self, begin: float) -> float:
        return per_second(self._steps, process_time() - begin)

    def _check(self) -> None:
        """Raise an error if the repeated calls had another result."""
        import numpy as np

        for slot, again in zip(self._slots, self._repeated, strict=True):
            same = (
                np.array_equal(slot.decision.action, again.decision.action)
                and np.array_equal(slot.after.obs, again.after.obs)
                and np.array_equal(slot.after.reward, again.after.reward)
            )
            if not same:
                raise BriskError("Repeating the calls of a rollout had a different result.")


def _slots(memory: RolloutMemory, steps: int) -> list[StepSlot]:
    """The step slots of the rollout that an empty memory is about to hold."""
    slots = []
    for _ in range(steps):
        slots.append(memory.next_slot())
        memory.advance()
    return slots


COMMAND = BenchCommand(
    DESCRIPTION,
    EXAMPLES,
    RolloutBench,
    measure_rollout,
    lambda bench: (bench.slices + 1) * bench.seconds + 5,
)
