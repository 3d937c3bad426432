"""Which memory, cadence and learner an algorithm asks for, as data: it need not know any."""

from __future__ import annotations

from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True)
class Parts:
    """Registered names with their options; `train` builds the objects."""

    memory: str
    cadence: str
    learner: str
    memory_options: dict[str, object] = field(default_factory=dict)
    cadence_options: dict[str, object] = field(default_factory=dict)
    learner_options: dict[str, object] = field(default_factory=dict)
