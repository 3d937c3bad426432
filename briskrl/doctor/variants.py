"""A training config and the ways to change it: what experiments are made of."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from briskrl.doctor.changes import Changes, as_flags, changed
from briskrl.doctor.experiments.base import Experiment
from briskrl.doctor.train_loop import TrainLoop
from briskrl.training.config import TrainConfig

Alter = Callable[[TrainLoop], None]


@dataclass(slots=True)
class Lab:
    """Where the loops of one config are made, as it is and with something changed."""

    config: TrainConfig
    alter: tuple[Alter, ...] = ()
    """Changes of every loop's parts, made before all else."""
    engine: str = ""
    """Who computes, once a loop was made."""
    refusal: str | None = None
    """Why the fused engine cannot."""
    env_notes: list[str] = field(default_factory=list)
    """What the environments said when they were made."""

    @property
    def num_envs(self) -> int:
        """Environments of the config."""
        return self.config.num_envs

    def open(self, *alter: Alter) -> TrainLoop:
        """The loop of the config, with changes of its parts."""
        return TrainLoop(self.config, [*self.alter, *alter])

    def open_with(self, changes: Changes) -> TrainLoop:
        """The loop of the config with other settings."""
        return TrainLoop(changed(self.config, changes), self.alter)

    def change(
        self, name: str, question: str, cause: str, changes: Changes, **more: Any
    ) -> Experiment:
        """The experiment that other settings are."""
        return Experiment(
            name=name,
            question=question,
            cause=cause,
            change=as_flags(changes),
            open=lambda: self.open_with(changes),
            changes=dict(changes),
            **more,
        )
