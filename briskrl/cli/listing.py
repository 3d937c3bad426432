"""Plain text tables of options, and the numbers and tables of everything else."""

from __future__ import annotations

from collections.abc import Mapping

from briskrl.cli.flags import flag_name, show
from briskrl.core.config import field_defaults, field_docs
from briskrl.core.telling import columns, count, duration, number, percent, shares

__all__ = ["columns", "count", "duration", "number", "options", "percent", "shares"]


def options(cls: type, preset: Mapping[str, object] | None = None) -> str:
    """The fields of a config class with their defaults and help, one to a line."""
    defaults, docs = field_defaults(cls) | dict(preset or {}), field_docs(cls)
    rows = [(flag_name(name), show(value), docs.get(name, "")) for name, value in defaults.items()]
    return columns(rows)
