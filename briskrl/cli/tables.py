"""Tables: figures of a benchmark, options of a config class."""

from __future__ import annotations

import shutil
import sys
import textwrap
from collections.abc import Callable, Iterator, Mapping
from dataclasses import asdict
from typing import Any

from briskrl.cli.flags import flag_name
from briskrl.cli.output import print_json
from briskrl.core.aliases import field_aliases
from briskrl.core.config import field_defaults, field_docs
from briskrl.core.format import format_columns, format_count, format_phases
from briskrl.core.text_values import show


def print_result(
    measure: Callable[[], Any],
    *,
    as_json: bool,
    cpu_seconds: float,
    to_text: Callable[[Any], str] | None = None,
) -> int:
    """Run a benchmark and print its figures.

    Args:
        measure: Returns the figures, a dataclass.
        as_json: Print one JSON object instead of text.
        cpu_seconds: Expected duration, shown while measuring; 0 shows nothing.
        to_text: Formats the figures; by default a table with one figure per row.
    """
    if cpu_seconds and sys.stderr.isatty():
        print(f"measuring, about {cpu_seconds:.0f} s of CPU ...", file=sys.stderr, flush=True)
    figures = measure()
    if as_json:
        print_json(asdict(figures))
    elif to_text is not None:
        print(to_text(figures), flush=True)
    else:
        print(format_columns(list(_rows(asdict(figures)))), flush=True)
    return 0


def _rows(figures: dict[str, Any], prefix: str = "") -> Iterator[tuple[str, str]]:
    """Names and values for a table; nested figures have dotted names."""
    for name, value in figures.items():
        if isinstance(value, dict) and name != "phases":
            yield from _rows(value, f"{prefix}{name}.")
        else:
            yield prefix + name, _format(name, value)


def _format(name: str, value: object) -> str:
    if isinstance(value, dict):
        return format_phases(value)
    if isinstance(value, tuple):
        return ", ".join(_format(name, part) for part in value)
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, float):
        return format_count(value) if value >= 1000 else f"{value:.4g}"
    if isinstance(value, int) and name not in ("threads", "slices", "num_envs"):
        return f"{value:,}"
    return "-" if value is None else str(value)


def options(cls: type, preset: Mapping[str, object] | None = None) -> str:
    """The fields of a config class with their defaults, help and aliases, one per line."""
    defaults, docs = field_defaults(cls) | dict(preset or {}), field_docs(cls)
    aliases: dict[str, list[str]] = {}
    for alias, name in field_aliases(cls).items():
        aliases.setdefault(name, []).append(flag_name(alias))
    rows = []
    for name, value in defaults.items():
        also = f" [also {', '.join(aliases[name])}]" if name in aliases else ""
        rows.append((flag_name(name), show(value), docs.get(name, "") + also))
    left = format_columns([row[:2] for row in rows]).splitlines()
    indent = max(map(len, left), default=0) + 2
    width = max(40, shutil.get_terminal_size((100, 24)).columns - indent)
    lines = []
    for start, (_, _, text) in zip(left, rows, strict=True):
        wrapped = textwrap.wrap(text, width, break_on_hyphens=False) or [""]
        lines.append(f"{start.ljust(indent)}{wrapped[0]}".rstrip())
        lines += [" " * indent + line for line in wrapped[1:]]
    return "\n".join(lines)
