"""A report as plain text for a terminal, at most 100 characters wide."""

from __future__ import annotations

import textwrap
from collections.abc import Iterator, Sequence
from typing import Any

from briskrl.core.format import format_columns, format_figures, format_percent, strip_control_chars
from briskrl.doctor.report import phrases
from briskrl.doctor.report.records import Finding, Outcome, PhaseRow, Report

WIDTH = 100
BAR = 20
"""Characters of the bar of a phase that takes all of the time."""


def describe(report: Report) -> str:
    """The report as text, without a final line break."""
    answers = phrases.answers(report)
    parts = [
        _head(report),
        _listed(phrases.COUNTERS, phrases.counters(report)),
        _listed(phrases.SUSPICIOUS, () if report.script is None else report.script.warnings),
        _phases(report),
        _findings(report),
        _outcomes(phrases.TRADE_OFFS, answers.trade_offs),
        _outcomes(phrases.NO_GAIN, answers.no_gain),
        _listed(phrases.MISSING, [_reason(outcome) for outcome in answers.missing]),
        _listed(phrases.NOT_APPLICABLE, [_reason(outcome) for outcome in answers.not_applicable]),
        _listed(phrases.UNSEEN, () if report.script is None else report.script.unseen),
        _listed(phrases.NOTES, report.notes),
        _proof(report.proof),
        _profile(report.profile),
    ]
    return "\n\n".join(part for part in parts if part)


def _head(report: Report) -> str:
    lines = [*_wrapped(f"Doctor's report of {report.target}", "", ""), ""]
    for name, text in phrases.headline(report):
        lines += _wrapped(text, f"  {name:<8} ", " " * 11)
    for warning in phrases.warnings(report):
        lines += ["", *_wrapped(warning, "  ! ", "    ")]
    return "\n".join(lines)


def _phases(report: Report) -> str:
    if not report.phases:
        return ""
    titles = ("phase", "share", "", "wall s/M", "CPU s/M", "calls/M", "p50 us", "p95 us")
    table = _table([titles, *(_phase(row) for row in report.phases)], text_at=(0, 2))
    covered = (
        f"  The named phases cover {100 * report.coverage:.1f}% of the wall time. "
        "M is a million transitions."
    )
    return "\n".join([phrases.PHASES, "", table, "", covered])


def _phase(row: PhaseRow) -> tuple[str, ...]:
    return (
        _cut(row.name, 12),
        format_percent(row.share),
        "#" * round(BAR * min(1.0, row.share)),
        phrases.figures(row.wall_s),
        phrases.figures(row.cpu_s),
        f"{row.calls:,}" if row.calls else "-",
        format_figures(row.p50_us) if row.calls else "-",
        format_figures(row.p95_us) if row.calls else "-",
    )


def _findings(report: Report) -> str:
    if not report.findings:
        return phrases.nothing_found(report)
    parts = [phrases.FINDINGS]
    for number, finding in enumerate(report.findings, 1):
        parts += ["", *_finding(number, finding)]
    return "\n".join(parts)


def _finding(number: int, finding: Finding) -> Iterator[str]:
    yield from _wrapped(finding.title, f"  {number}. ", "     ")
    if finding.location:
        yield from _wrapped(finding.location, "     at      ", " " * 13)
        yield from _code(finding.source)
    for line in finding.evidence:
        yield from _wrapped(line, "     seen    ", " " * 13)
    yield from _wrapped(finding.advice, "     change  ", " " * 13)
    yield from _code(finding.fix)
    yield from _wrapped(phrases.describe_gain(finding), "     gain    ", " " * 13)
    yield from _wrapped(phrases.describe_cost(finding.alters_learning), "     costs   ", " " * 13)


def _code(text: str) -> Iterator[str]:
    """Lines of code, indented and cut to the width of the report."""
    for line in text.splitlines():
        yield f"               {_cut(line, WIDTH - 15)}".rstrip()


def _outcomes(title: str, outcomes: Sequence[Outcome]) -> str:
    if not outcomes:
        return ""
    lines = [title, ""]
    for outcome in outcomes:
        lines += _wrapped(phrases.question(outcome), "  - ", "    ")
        for text in phrases.answer_lines(outcome):
            lines += _wrapped(text, "      ", "        ")
    return "\n".join(lines)


def _reason(outcome: Outcome) -> str:
    return f"{phrases.question(outcome)} {outcome.answer}"


def _listed(title: str, items: Sequence[str]) -> str:
    if not items:
        return ""
    lines = [line for item in items for line in _wrapped(item, "  - ", "    ")]
    return "\n".join([title, "", *lines])


def _proof(proof: Outcome | None) -> str:
    return "" if proof is None else _outcomes(phrases.VERIFICATION, [proof])


def _profile(profile: dict[str, Any] | None) -> str:
    if profile is None:
        return ""
    lines = [f"{phrases.PROFILE} by {strip_control_chars(profile['kind'])}", ""]
    if profile.get("why"):
        lines += _wrapped(str(profile["why"]), "  ", "  ")
    if profile.get("top"):
        lines += [_table(_profile_rows(profile), text_at=(3,)), ""]
    lines += [
        line for file in profile.get("files", ()) for line in _wrapped(file, "  saved ", "    ")
    ]
    return "\n".join(lines).rstrip()


def _profile_rows(profile: dict[str, Any]) -> list[Sequence[str]]:
    """The most expensive entries: share of the profiled time, own seconds, calls and name."""
    rows: list[Sequence[str]] = [("share", "own s", "calls", "what")]
    for entry in profile["top"]:
        calls = "-" if entry.get("calls") is None else f"{entry['calls']:,}"
        own, share = format_figures(entry["own_s"]), format_percent(entry["share"])
        rows.append((share, own, calls, _cut(entry["name"], 68)))
    return rows


def _table(rows: Sequence[Sequence[str]], text_at: Sequence[int]) -> str:
    """Aligned columns: text to the left, numbers to the right."""
    widths = [max(map(len, cells)) for cells in zip(*rows, strict=True)]
    return format_columns(
        [
            [
                cell if position in text_at else cell.rjust(width)
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
