"""Which memory and cadence an algorithm asks for, as data, so that it need not know either."""

from __future__ import annotations

from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True)
class Parts:
    """Registered names with their options; `train` builds the objects."""

    memory: str
    cadence: str
    memory_options: dict[str, object] = field(default_factory=dict)
    cadence_options: dict[str, object] = field(default_factory=dict)
