"""A training config, or the config of a run folder, as the target of an examination."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from briskrl import __version__
from briskrl.core.errors import BriskError
from briskrl.core.state_checks import MALFORMED
from briskrl.doctor.experiments.base import Experiment, Skipped
from briskrl.doctor.experiments.learning import learning_experiments
from briskrl.doctor.experiments.runtime import runtime_experiments
from briskrl.doctor.observation import Observation
from briskrl.doctor.train_loop import Changes, TrainLoop
from briskrl.doctor.variants import Alter, VariantFactory
from briskrl.training.config import TrainConfig
from briskrl.training.resolve import complete
from briskrl.training.storage.line_files import read_jsonl
from briskrl.training.storage.run_dir import RunDir
from briskrl.training.utilization import UtilizationMeter

MINUTE_S = 60.0


class TrainTarget:
    """A training config, trained in temporary run folders.

    Args:
        config: What to train.
        name: Its name in the report.
        alter: Modifications of every loop, applied first.
    """

    obs_size = 16

    def __init__(
        self, config: TrainConfig, name: str | None = None, alter: Sequence[Alter] = ()
    ) -> None:
        config = complete(config)
        self.name = name or f"{config.env} --algo {config.algo}"
        self.num_envs = config.num_envs
        self.extra_notes: list[str] = []
        """Further facts about the target for the report."""
        self._factory = VariantFactory(replace(config, threads=config.num_threads), tuple(alter))
        self._meter: UtilizationMeter | None = None

    def open(self) -> TrainLoop:
        """Build the unchanged loop."""
        loop = self._factory.open()
        trainer = loop.inner.trainer
        self._factory.engine = trainer.algo.engines.name
        self._factory.refusal = trainer.algo.engines.refusal
        self._factory.env_notes = list(trainer.env.notes)
        self._meter = UtilizationMeter(
            trainer.algo.flops(self.num_envs), on_cpu=trainer.device.type == "cpu"
        )
        return loop

    def open_with(self, changes: Changes) -> TrainLoop:
        """Build the loop with other settings."""
        return self._factory.open_with(changes)

    def notes(self) -> list[str]:
        """The engine in use, and notes of the environments."""
        factory = self._factory
        reason = f" ({factory.refusal})" if factory.refusal else ""
        return [f"engine {factory.engine}{reason}", *factory.env_notes, *self.extra_notes]

    def machine_fraction(self, seen: Observation) -> float | None:
        """Arithmetic per CPU second over the machine's peak."""
        if self._meter is None or not seen.steady:
            return None
        effort = self._meter.measure(
            steps=sum(window.turn.steps for window in seen.steady),
            updates=sum(window.turn.updates for window in seen.steady),
            cpu_s=sum(window.turn.cpu_s for window in seen.steady),
        )
        return effort.machine_fraction

    def experiments(self, seen: Observation) -> list[Experiment | Skipped]:
        """All experiments about learning and the runtime."""
        return [
            *learning_experiments(self._factory, seen, self.machine_fraction(seen)),
            *runtime_experiments(self._factory, seen),
        ]


def describe_run(folder: Path) -> list[str]:
    """Facts about a run folder: its version and its speed at the start and later; only reads."""
    return [*_version(folder), *_speeds(folder)]


def _version(folder: Path) -> list[str]:
    with suppress(BriskError, OSError, *MALFORMED):
        versions: Any = RunDir.open(folder).read_meta().get("versions", {})
        version = versions.get("briskrl")
        if version not in (None, __version__):
            return [
                f"the run was made by briskrl {version}, this is {__version__}: its settings are "
                "trained with the installed version"
            ]
    return []


def _speeds(folder: Path) -> list[str]:
    """Speed of the run in its first minute and later."""
    try:
        return [_describe_speeds(list(read_jsonl(folder / "metrics.jsonl")))]
    except (OSError, *MALFORMED) as error:
        return [f"the metrics of the run cannot be read: {error}"]


def _describe_speeds(rows: list[Any]) -> str:
    known = [row for row in rows if row.get("steps_per_s") and row.get("wall_s") is not None]
    first = [row["steps_per_s"] for row in known if row["wall_s"] <= MINUTE_S]
    later = [row["steps_per_s"] for row in known if row["wall_s"] > MINUTE_S]
    if not first:
        return "the run is too short to have a speed of its own"
    text = f"the run itself did {np.median(first):,.0f} steps/s in its first minute"
    return f"{text} and {np.median(later):,.0f} later" if later else text
