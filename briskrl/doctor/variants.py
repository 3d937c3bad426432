"""Build training loops from a config, unchanged or with one change."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from briskrl.doctor.experiments.base import Experiment
from briskrl.doctor.train_loop import Changes, TrainLoop, as_flags, changed
from briskrl.training.config import TrainConfig

Alter = Callable[[TrainLoop], None]


@dataclass(slots=True)
class VariantFactory:
    """Builds the loops of one config and its variants."""

    config: TrainConfig
    alter: tuple[Alter, ...] = ()
    """Modifications of every loop, applied first."""
    engine: str = ""
    """Engine in use, once a loop was built."""
    refusal: str | None = None
    """Why the fused engine cannot be used; None if it can."""
    env_notes: list[str] = field(default_factory=list)
    """Notes of the environments when they were built."""

    @property
    def num_envs(self) -> int:
        """Number of environments."""
        return self.config.num_envs

    def open(self, *alter: Alter) -> TrainLoop:
        """Build the loop with modified parts."""
        return TrainLoop(self.config, [*self.alter, *alter])

    def open_with(self, changes: Changes) -> TrainLoop:
        """Build the loop with other settings."""
        return TrainLoop(changed(self.config, changes), self.alter)

    def change(
        self, name: str, question: str, cause: str, changes: Changes, **more: Any
    ) -> Experiment:
        """An experiment that changes settings."""
        return Experiment(
            name=name,
            question=question,
            cause=cause,
            change=as_flags(changes),
            open=lambda: self.open_with(changes),
            changes=dict(changes),
            **more,
        )
