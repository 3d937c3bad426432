"""What the driver of a run with replicas and their processes send each other."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from briskrl.algos.engines import EngineName
from briskrl.core.errors import BriskError
from briskrl.training.config import TrainConfig
from briskrl.training.reporter import Progress, RunInfo, RunResult, StopSignal


@dataclass(frozen=True, slots=True)
class ReplicaOrder:
    """From the driver: be this replica of a run."""

    config: TrainConfig
    rank: int
    meeting: Path
    """File in a private folder where replicas find each other."""
    timeout_s: float
    """How long a replica may keep the others waiting."""
    resumed: bool
    engine: EngineName | None
    """The engine that an earlier attempt has chosen by measuring."""
    command: tuple[str, ...]
    """The command that the user has given, for the records."""


@dataclass(frozen=True, slots=True)
class Go:
    """From the driver: train in this run folder; the driver holds its lock."""

    folder: Path


@dataclass(frozen=True, slots=True)
class StopNow:
    """From the driver: save and stop."""

    reason: StopSignal


@dataclass(frozen=True, slots=True)
class Built:
    """From a replica: the settings can be used; nothing has been written."""


@dataclass(frozen=True, slots=True)
class Begun:
    """From the first replica: training begins, with this engine."""

    engine: EngineName


@dataclass(frozen=True, slots=True)
class Failed:
    """From a replica: an error that another attempt would meet, too."""

    error: BriskError


@dataclass(frozen=True, slots=True)
class Lost:
    """From a replica: another one has gone, or does not answer."""

    cause: str


@dataclass(frozen=True, slots=True)
class Left:
    """From a replica: it has done its part."""


@dataclass(frozen=True, slots=True)
class Ended:
    """From the first replica: the run has ended and is saved."""

    result: RunResult


@dataclass(frozen=True, slots=True)
class Note:
    """From the first replica, for the user."""

    text: str


@dataclass(frozen=True, slots=True)
class WarmedUp:
    """From the first replica: how long the warm-up has taken."""

    seconds: float


Report = RunInfo | WarmedUp | Progress | Note
"""From the first replica: what a Reporter receives."""
ReplicaMessage = Built | Begun | Report | Failed | Lost | Left | Ended
