"""A training config as the subject of an examination."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from briskrl.doctor.changes import Changes
from briskrl.doctor.experiments.base import Experiment, Skipped
from briskrl.doctor.experiments.learning import about_learning
from briskrl.doctor.experiments.runtime import about_surroundings
from briskrl.doctor.observation import Observation
from briskrl.doctor.train_loop import TrainLoop
from briskrl.doctor.variants import Alter, Lab
from briskrl.training.config import TrainConfig
from briskrl.training.resolve import complete
from briskrl.training.utilization import UtilizationMeter


class TrainSubject:
    """A config to be examined, run on the side.

    Args:
        config: What to train.
        name: What the report calls it.
        alter: Changes of every loop's parts, made before all else.
    """

    def __init__(
        self, config: TrainConfig, name: str | None = None, alter: Sequence[Alter] = ()
    ) -> None:
        config = complete(config)
        self.name = name or f"{config.env} --algo {config.algo}"
        self.num_envs = config.num_envs
        self.told: list[str] = []
        """What else the report should tell of the target."""
        self._lab = Lab(replace(config, threads=config.num_threads), tuple(alter))
        self._gauge: UtilizationMeter | None = None

    def open(self) -> TrainLoop:
        """The loop as it is."""
        loop = self._lab.open()
        trainer = loop.ours.trainer
        self._lab.engine = trainer.algo.engines.name
        self._lab.refusal = trainer.algo.engines.refusal
        self._lab.env_notes = list(getattr(trainer.env, "notes", ()))
        self._gauge = UtilizationMeter(
            trainer.algo.flops(self.num_envs), on_cpu=trainer.device.type == "cpu"
        )
        return loop

    def open_with(self, changes: Changes) -> TrainLoop:
        """The loop of the config with other settings."""
        return self._lab.open_with(changes)

    def notes(self) -> list[str]:
        """The engine in use, and what the environments said."""
        lab = self._lab
        reason = f" ({lab.refusal})" if lab.refusal else ""
        return [f"engine {lab.engine}{reason}", *lab.env_notes, *self.told]

    def machine_fraction(self, seen: Observation) -> float | None:
        """Arithmetic per CPU second over the machine's best."""
        if self._gauge is None or not seen.settled:
            return None
        effort = self._gauge.effort(
            steps=sum(stretch.turn.steps for stretch in seen.settled),
            updates=sum(stretch.turn.updates for stretch in seen.settled),
            cpu_s=sum(stretch.turn.cpu_s for stretch in seen.settled),
        )
        return effort.machine_fraction

    def experiments(self, seen: Observation) -> list[Experiment | Skipped]:
        """All that apply."""
        return [
            *about_learning(self._lab, seen, self.machine_fraction(seen)),
            *about_surroundings(self._lab, seen),
        ]
