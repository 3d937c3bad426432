"""Format numbers and plain text tables for the terminal."""

from __future__ import annotations

from collections.abc import Sequence


def format_columns(rows: Sequence[Sequence[str]], indent: str = "  ") -> str:
    """Rows as aligned columns, two spaces apart; the last column is not padded."""
    if not rows:
        return ""
    rows = [[escape_controls(cell) for cell in row] for row in rows]
    widths = [max(map(len, cells)) for cells in zip(*rows, strict=True)]
    lines = []
    for row in rows:
        cells = [cell.ljust(width) for cell, width in zip(row, widths, strict=True)]
        lines.append((indent + "  ".join(cells)).rstrip())
    return "\n".join(lines)


def format_count(value: float) -> str:
    """A count with three significant digits: 950, 12.3k, 4.00M."""
    for limit, unit in ((1e9, "G"), (1e6, "M"), (1e3, "k")):
        # 999.95 k would round to 1000 k, so the larger unit begins just before that.
        if value >= limit * 0.9995:
            scaled = value / limit
            return f"{scaled:.{2 if scaled < 9.995 else 1 if scaled < 99.95 else 0}f}{unit}"
    return f"{value:.0f}"


def format_duration(seconds: float) -> str:
    """A duration: 3.2s, 4m05s, 2h03m, 5d04h."""
    if seconds < 59.95:
        return f"{seconds:.1f}s"
    whole = round(seconds)
    for size, unit, small, name in ((86400, "d", 3600, "h"), (3600, "h", 60, "m")):
        if whole >= size:
            return f"{whole // size}{unit}{whole % size // small:02d}{name}"
    return f"{whole // 60}m{whole % 60:02d}s"


def format_score(value: float | None) -> str:
    """A score or return: 12.34, or a dash if there is none."""
    return "-" if value is None else f"{value:.2f}"


def format_percent(share: float) -> str:
    """A share as a percentage with two significant digits: 43%, 4.3%, 0.43%."""
    value = 100 * share
    return f"{value:.{0 if value >= 9.95 else 1 if value >= 0.995 else 2}f}%"


def format_phases(phases: dict[str, float]) -> str:
    """Phases with their share of the time, largest first, without those below half a percent."""
    total = sum(phases.values())
    if total <= 0:
        return "-"
    ordered = sorted(phases.items(), key=lambda item: -item[1])
    parts = [f"{name} {100 * s / total:.0f}%" for name, s in ordered if s / total >= 0.005]
    return "  ".join(parts)


def format_figures(value: float) -> str:
    """A measured number with three significant digits: 0.043, 4.30, 43.0, 4,300."""
    size = abs(value)
    if size >= 99.95:
        return f"{value:,.0f}"
    places = 1 if size >= 9.995 else 2 if size >= 0.9995 else 3
    return f"{value:.{places}f}"


def strip_control_chars(text: str) -> str:
    """The text without terminal control characters; line breaks become spaces."""
    return "".join(c if c.isprintable() else " " if c.isspace() else "?" for c in text)


def escape_controls(text: str, keep: str = "") -> str:
    r"""The text with an escape such as \x1b for every character that does not print.

    Terminals act on control characters, so names and messages from files, environments and other
    users pass through here before they are shown. The characters of `keep` stay.
    """
    if text.isprintable():
        return text
    return "".join(c if c.isprintable() or c in keep else _escape(c) for c in text)


def _escape(character: str) -> str:
    return character.encode("unicode_escape").decode("ascii")
