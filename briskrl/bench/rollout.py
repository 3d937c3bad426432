"""`brisk bench rollout`: what collecting costs beyond acting and stepping.

A rollout is collected as training does it. The same calls of the policy are made alone, on the
observations that were recorded, and the same steps of the games alone, from the state that the
rollout began with. All three must come to the same actions and observations.
"""

from __future__ import annotations

from dataclasses import dataclass
from time import process_time
from typing import Final, cast

import numpy as np
from numpy.typing import NDArray

from briskrl.algos.ppo.config import PPOConfig
from briskrl.bench.config import RolloutBench
from briskrl.core.errors import BriskError
from briskrl.core.types import StepSlot
from briskrl.envs.snake.config import SnakeConfig
from briskrl.memory.base import RolloutMemory
from briskrl.memory.rollout import RolloutBuffer
from briskrl.training.config import TrainConfig
from briskrl.training.resolve import complete
from briskrl.training.trainer import Trainer
from briskrl.training.warmup import warm_up

OBS: Final = "flood"
FIRST_ROLLOUTS = 8
"""Rollouts to learn from before measuring, so that games are no longer in their first moves."""


@dataclass(frozen=True, slots=True)
class RolloutFigures:
    """CPU time of collecting and of its parts alone, medians over the stretches."""

    rollout_cost_ratio: float
    """Collecting over acting alone plus stepping alone."""
    collect_us: float
    """Of one vector step, as are the next two."""
    act_us: float
    env_us: float
    steps_per_cpu_s: float
    """Transitions collected."""
    env: str
    obs: str
    num_envs: int
    update_steps: int
    rollouts: int
    """Rollouts that were measured."""
    slices: int


def measure_rollout(bench: RolloutBench) -> RolloutFigures:
    """Measure the three in turns.

    Raises:
        BriskError: Acting or stepping alone came to another result than collecting did.
    """
    trainer = Trainer(_config(bench))
    try:
        trial = Trial(trainer, bench.update_steps)
        trial.turn()
        stretches = [_stretch(trial, bench.seconds) for _ in range(bench.slices)]
    finally:
        trainer.close()
    count = sum(len(stretch) for stretch in stretches)
    cost = np.array([stretch.mean(axis=0) for stretch in stretches])
    collect, act, env = (float(value) for value in np.median(cost, axis=0) / bench.update_steps)
    return RolloutFigures(
        rollout_cost_ratio=float(np.median(cost[:, 0] / (cost[:, 1] + cost[:, 2]))),
        collect_us=collect * 1e6,
        act_us=act * 1e6,
        env_us=env * 1e6,
        steps_per_cpu_s=bench.num_envs / collect,
        env="snake",
        obs=OBS,
        num_envs=bench.num_envs,
        update_steps=bench.update_steps,
        rollouts=count,
        slices=bench.slices,
    )


def _config(bench: RolloutBench) -> TrainConfig:
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


def _stretch(trial: Trial, seconds: float) -> NDArray[np.float64]:
    """Costs (M, 3) of turns that take about so many CPU seconds together."""
    turns = [trial.turn()]
    while sum(map(sum, turns)) < seconds:
        turns.append(trial.turn())
    return np.array(turns)


class Trial:
    """A session between two rollouts, and spare rows for doing a rollout's calls again."""

    def __init__(self, trainer: Trainer, steps: int) -> None:
        self._trainer = trainer
        self._steps = steps
        self._memory = cast(RolloutMemory, trainer.memory)
        spec, num_envs = trainer.env.env_spec, trainer.config.num_envs
        spare = RolloutBuffer(spec=spec, num_envs=num_envs, steps=steps, reuse=0)
        self._again = _rows(spare, steps)
        self._rows = _rows(self._memory, steps)
        self._memory.clear()
        warm_up(trainer)
        for _ in range(FIRST_ROLLOUTS * steps):
            trainer.iterate()
        self._games = trainer.env.get_state()
        self._numbers = trainer.streams.state()
        self._turns = 0

    def turn(self) -> tuple[float, float, float]:
        """CPU seconds of collecting a rollout, of its calls of `act` and of its steps.

        The rollout is collected once before, so that all three do what has been done already; which
        of them comes first changes from turn to turn, as it finds other things in the caches.
        """
        self._games = self._trainer.env.get_state()
        self._numbers = self._trainer.streams.state()
        self._collect()
        cost = [0.0, 0.0, 0.0]
        parts = (self._collect, self._act, self._step)
        for k in range(3):
            which = (k + self._turns) % 3
            cost[which] = parts[which]()
        self._turns += 1
        self._compare()
        self._memory.next_rollout()
        return cost[0], cost[1], cost[2]

    def _collect(self) -> float:
        self._trainer.streams.load_state(self._numbers)
        self._set_games()
        # The row that is acted on first is still there.
        self._memory.clear()
        collect = self._trainer.collector.collect
        begin = process_time()
        for _ in range(self._steps):
            collect()
        return process_time() - begin

    def _set_games(self) -> None:
        self._trainer.env.set_state(self._games)
        self._trainer.env.drain_stats()

    def _act(self) -> float:
        self._trainer.streams.load_state(self._numbers)
        act, counters = self._trainer.algo.act, self._trainer.counters
        begin = process_time()
        for row, again in zip(self._rows, self._again, strict=True):
            act(row.before.obs, row.before.mask, counters, again.decision)
        return process_time() - begin

    def _step(self) -> float:
        self._set_games()
        step_into = self._trainer.env.step_into
        begin = process_time()
        for row, again in zip(self._rows, self._again, strict=True):
            step_into(row.decision.action, again.after)
        return process_time() - begin

    def _compare(self) -> None:
        """Refuse figures of calls that were not the same."""
        for row, again in zip(self._rows, self._again, strict=True):
            same = (
                np.array_equal(row.decision.action, again.decision.action)
                and np.array_equal(row.after.obs, again.after.obs)
                and np.array_equal(row.after.reward, again.after.reward)
            )
            if not same:
                raise BriskError("Doing a rollout's calls again came to another result.")


def _rows(memory: RolloutMemory, steps: int) -> list[StepSlot]:
    """The rows of the rollout that an empty memory is about to hold."""
    rows = []
    for _ in range(steps):
        rows.append(memory.next_slot())
        memory.advance()
    return rows
