"""The parts that every `brisk bench` command consists of, and setting types they share.

A module of a command holds its help, its settings and its measurement. Modules of commands import
nothing heavy at the top, so that their help is printed at once.
"""

from __future__ import annotations

from collections.abc import Callable, Collection
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Any

from msgspec import Meta

if TYPE_CHECKING:
    from briskrl.training.config import TrainConfig

NumEnvs = Annotated[int, Meta(ge=1, le=1_048_576)]
Threads = Annotated[int, Meta(ge=1, le=1024)]
Seconds = Annotated[float, Meta(gt=0, le=3600)]
Slices = Annotated[int, Meta(ge=1, le=1000)]
Seed = Annotated[int, Meta(ge=0)]

Report = Callable[[str], None]
"""Called with one line of progress."""


@dataclass(frozen=True, slots=True)
class BenchCommand:
    """A benchmark with options of its own."""

    description: str
    examples: str
    settings: type
    """Config class; every field is a flag."""
    measure: Callable[..., Any]
    """measure(settings): the figures, a dataclass."""
    cpu_seconds: Callable[[Any], float]
    """cpu_seconds(settings): about how long it takes."""
    reports: bool = False
    """Whether `measure` also takes a Report."""


@dataclass(frozen=True, slots=True)
class TrainBenchCommand:
    """A benchmark that also takes every option of `brisk train`."""

    description: str
    examples: str
    settings: type | None
    """Config class of its own options, if it has any."""
    measure: Callable[[TrainConfig, Any, Report], Any]
    """measure(config, settings, report): the figures, a dataclass."""
    cpu_seconds: Callable[[TrainConfig, Any], float]
    default_flags: tuple[str, str]
    """A flag and its value, used unless the flag or --config is given."""
    reserved_flags: Collection[str] = ("--run-dir", "--print-config")
    """Options of `brisk train` that cannot be given."""
    to_text: Callable[[Any], str] | None = None
    """Formats the figures; by default a table with one figure per row."""
