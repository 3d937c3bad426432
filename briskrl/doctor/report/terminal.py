"""A report as plain text, for a terminal: nothing is wider than 100 characters."""

from __future__ import annotations

import textwrap
from collections.abc import Iterator, Sequence
from typing import Any

from briskrl.core.format import columns, figures, percent, strip_control_chars
from briskrl.doctor.report import phrases as words
from briskrl.doctor.report.records import Finding, Outcome, PhaseRow, Report

WIDTH = 100
BAR = 20
"""Characters of a phase that takes all of the time."""


def describe(report: Report) -> str:
    """The report as it is printed, without a break at its end."""
    answers = words.answers(report)
    parts = [
        _head(report),
        _phases(report),
        _findings(report),
        _outcomes(words.TRADE_OFFS, answers.trade_offs),
        _outcomes(words.NO_CURE, answers.no_cure),
        _listed(words.MISSING, [_reason(outcome) for outcome in answers.missing]),
        _listed(words.IDLE, [_reason(outcome) for outcome in answers.idle]),
        _listed(words.NOTES, report.notes),
        _proof(report.proof),
        _profile(report.profile),
    ]
    return "\n\n".join(part for part in parts if part)


def _head(report: Report) -> str:
    lines = [*_wrapped(f"Doctor's report of {report.target}", "", ""), ""]
    for name, told in words.headline(report):
        lines += _wrapped(told, f"  {name:<8} ", " " * 11)
    for warning in words.warnings(report):
        lines += ["", *_wrapped(warning, "  ! ", "    ")]
    return "\n".join(lines)


def _phases(report: Report) -> str:
    if not report.phases:
        return ""
    titles = ("phase", "share", "", "wall s/M", "CPU s/M", "calls/M", "p50 us", "p95 us")
    table = _table([titles, *(_phase(row) for row in report.phases)], words_at=(0, 2))
    covered = (
        f"  The named phases are {100 * report.coverage:.1f}% of the wall time. "
        "M is a million transitions."
    )
    return "\n".join([words.PHASES, "", table, "", covered])


def _phase(row: PhaseRow) -> tuple[str, ...]:
    return (
        _cut(row.name, 12),
        percent(row.share),
        "#" * round(BAR * min(1.0, row.share)),
        figures(row.wall_s),
        figures(row.cpu_s),
        f"{row.calls:,}" if row.calls else "-",
        figures(row.p50_us) if row.calls else "-",
        figures(row.p95_us) if row.calls else "-",
    )


def _findings(report: Report) -> str:
    if not report.findings:
        return words.nothing_found(report)
    parts = [words.FINDINGS]
    for number, finding in enumerate(report.findings, 1):
        parts += ["", *_finding(number, finding)]
    return "\n".join(parts)


def _finding(number: int, finding: Finding) -> Iterator[str]:
    yield from _wrapped(finding.title, f"  {number}. ", "     ")
    for line in finding.evidence:
        yield from _wrapped(line, "     seen    ", " " * 13)
    yield from _wrapped(finding.advice, "     change  ", " " * 13)
    yield from _wrapped(words.gain_told(finding), "     gain    ", " " * 13)
    yield from _wrapped(words.cost_told(finding.alters_learning), "     costs   ", " " * 13)


def _outcomes(title: str, outcomes: Sequence[Outcome]) -> str:
    if not outcomes:
        return ""
    lines = [title, ""]
    for outcome in outcomes:
        lines += _wrapped(words.question(outcome), "  - ", "    ")
        for told in words.answer(outcome):
            lines += _wrapped(told, "      ", "        ")
    return "\n".join(lines)


def _reason(outcome: Outcome) -> str:
    return f"{words.question(outcome)} {outcome.told}"


def _listed(title: str, items: Sequence[str]) -> str:
    if not items:
        return ""
    lines = [line for item in items for line in _wrapped(item, "  - ", "    ")]
    return "\n".join([title, "", *lines])


def _proof(proof: Outcome | None) -> str:
    return "" if proof is None else _outcomes(words.PROOF, [proof])


def _profile(profile: dict[str, Any] | None) -> str:
    if profile is None:
        return ""
    lines = [f"{words.PROFILE} by {strip_control_chars(profile['kind'])}", ""]
    if profile.get("why"):
        lines += _wrapped(str(profile["why"]), "  ", "  ")
    if profile.get("top"):
        lines += [_table(_profile_rows(profile), words_at=(3,)), ""]
    lines += [
        line for file in profile.get("files", ()) for line in _wrapped(file, "  saved ", "    ")
    ]
    return "\n".join(lines).rstrip()


def _profile_rows(profile: dict[str, Any]) -> list[Sequence[str]]:
    """The dearest entries: their share of the profiled time, own seconds, calls and names."""
    rows: list[Sequence[str]] = [("share", "own s", "calls", "what")]
    for entry in profile["top"]:
        calls = "-" if entry.get("calls") is None else f"{entry['calls']:,}"
        own, share = figures(entry["own_s"]), percent(entry["share"])
        rows.append((share, own, calls, _cut(entry["name"], 68)))
    return rows


def _table(rows: Sequence[Sequence[str]], words_at: Sequence[int]) -> str:
    """Aligned columns: words stand to the left, numbers to the right."""
    widths = [max(map(len, cells)) for cells in zip(*rows, strict=True)]
    return columns(
        [
            [
                cell if position in words_at else cell.rjust(width)
                for position, (cell, width) in enumerate(zip(row, widths, strict=True))
            ]
            for row in rows
        ]
    )


def _wrapped(text: str, first: str, rest: str) -> list[str]:
    """The text in lines that fit, with an indent of the first line and one of the others."""
    return textwrap.wrap(
        strip_control_chars(text) or "-",
        WIDTH,
        initial_indent=first,
        subsequent_indent=rest,
        break_on_hyphens=False,
    )


def _cut(name: str, width: int) -> str:
    name = strip_control_chars(name)
    return name if len(name) <= width else name[: width - 3] + "..."
