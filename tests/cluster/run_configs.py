"""Runs that are long enough to be killed while they train."""

from __future__ import annotations

from pathlib import Path

from briskrl.training.config import TrainConfig
from tests.training.runs import fused_config


def long_config(folder: Path | str = "unused", *, steps: int = 60_000) -> TrainConfig:
    """A run of one or two seconds that saves often."""
    return fused_config(Path(folder), steps=steps, checkpoint_steps=1600, log_seconds=0.05)
