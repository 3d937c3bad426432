"""A report as one self-contained HTML page: no scripts, no resources from elsewhere."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

from briskrl.core.format import format_figures, format_percent
from briskrl.doctor.report import phrases
from briskrl.doctor.report.records import Finding, Outcome, PhaseRow, Report
from briskrl.plots import (
    Interval,
    PhaseBar,
    experiment_intervals,
    history_curve,
    phase_bars,
)
from briskrl.plots.html_page import (
    code_block,
    element,
    escape_text,
    figure,
    list_of,
    page_of,
    section,
    table_of,
)

if TYPE_CHECKING:
    from briskrl.plots.report import Tone

TONES: dict[str, Tone] = {"helps": "good", "hurts": "bad"}
"""Color of an interval by verdict."""


def as_html(report: Report) -> str:
    """The report as a complete page: HTML that is also well-formed XML, in ASCII characters."""
    return page_of(f"Doctor's report of {report.target}", _sections(report))


def _sections(report: Report) -> Iterator[str]:
    answers = phrases.answers(report)
    yield _head(report)
    yield from _lines(phrases.COUNTERS, phrases.counters(report))
    if report.script is not None:
        yield from _lines(phrases.SUSPICIOUS, report.script.warnings)
    yield from _phases(report)
    yield from _findings(report)
    yield from _plots(report)
    yield from _outcomes(phrases.TRADE_OFFS, answers.trade_offs)
    yield from _outcomes(phrases.NO_GAIN, answers.no_gain)
    yield from _outcomes(phrases.MISSING, answers.missing)
    yield from _outcomes(phrases.NOT_APPLICABLE, answers.not_applicable)
    if report.script is not None:
        yield from _lines(phrases.UNSEEN, report.script.unseen)
    yield from _lines(phrases.NOTES, report.notes)
    if report.proof is not None:
        yield from _outcomes(phrases.VERIFICATION, [report.proof])
    if report.profile is not None:
        yield section(f"{phrases.PROFILE} by {report.profile['kind']}", *_profile(report.profile))
    yield element("footer", escape_text(f"briskrl {report.version}"))


def _lines(title: str, lines: Sequence[str]) -> Iterator[str]:
    if lines:
        yield section(title, list_of("ul", [escape_text(line) for line in lines]))


def _head(report: Report) -> str:
    rows = [
        element("div", element("dt", escape_text(name)), element("dd", escape_text(text)))
        for name, text in phrases.headline(report)
    ]
    warnings = [
        element("p", escape_text(text), class_="warning") for text in phrases.warnings(report)
    ]
    return element("section", element("dl", *rows), *warnings)


def _phases(report: Report) -> Iterator[str]:
    if not report.phases:
        return
    rows = [PhaseBar(row.name, row.wall_s or 0.0, row.cpu_s or 0.0) for row in report.phases]
    legend = 'Seconds per million transitions: <b class="wall">wall</b> and <b class="cpu">CPU</b>'
    covered = f"The named phases cover {100 * report.coverage:.1f}% of the wall time."
    table = table_of(
        ("phase", "share", "wall s/M", "CPU s/M", "calls/M", "p50 us", "p95 us"),
        [_phase(row) for row in report.phases],
    )
    yield section(
        phrases.PHASES,
        figure("Seconds per million transitions", phase_bars(rows), legend),
        element("p", escape_text(f"{covered} M is a million transitions.")),
        table,
    )


def _phase(row: PhaseRow) -> tuple[str, ...]:
    return (
        row.name,
        format_percent(row.share),
        phrases.figures(row.wall_s),
        phrases.figures(row.cpu_s),
        f"{row.calls:,}" if row.calls else "-",
        format_figures(row.p50_us) if row.calls else "-",
        format_figures(row.p95_us) if row.calls else "-",
    )


def _findings(report: Report) -> Iterator[str]:
    if not report.findings:
        yield section(
            phrases.FINDINGS, element("p", escape_text(phrases.nothing_found(report)), class_="all")
        )
        return
    items = ["".join(_finding(finding)) for finding in report.findings]
    yield section(phrases.FINDINGS, list_of("ol", items))


def _finding(finding: Finding) -> Iterator[str]:
    yield element("h3", escape_text(finding.title))
    if finding.location:
        yield element("p", escape_text(finding.location))
        yield code_block(finding.source)
    if finding.evidence:
        yield list_of("ul", [escape_text(line) for line in finding.evidence])
    lines = (
        ("change", finding.advice),
        ("gain", phrases.describe_gain(finding)),
        ("costs", phrases.describe_cost(finding.alters_learning)),
    )
    yield element(
        "dl",
        *(
            element("div", element("dt", name), element("dd", escape_text(text), class_=name))
            for name, text in lines
        ),
    )
    if finding.fix:
        yield code_block(finding.fix)


def _plots(report: Report) -> Iterator[str]:
    """Charts of all experiments, and of speed, cost and memory over time."""
    tried = [*report.outcomes, *([] if report.proof is None else [report.proof])]
    rows = [row for outcome in tried for row in _interval(outcome)]
    if rows:
        yield section(
            "All experiments",
            figure(
                "Experiments",
                experiment_intervals(rows),
                "Speed with the change over speed without it, with 95 % intervals; right of 1 is "
                "faster",
            ),
        )
    if report.history:
        yield section("Over time", element("div", *_curves(report), class_="plots"))


def _interval(outcome: Outcome) -> Iterator[Interval]:
    gain = outcome.gain
    if gain is not None and gain.factor > 0:
        tone = TONES.get(outcome.verdict, "plain")
        yield Interval(outcome.name, gain.factor, gain.low, gain.high, tone)


def _curves(report: Report) -> Iterator[str]:
    history = report.history
    speeds = [(moment.at_s, moment.steps_per_s) for moment in history]
    costs = [(float(moment.steps), moment.cpu_us_per_step) for moment in history]
    sizes = [(moment.at_s, moment.rss_mb) for moment in history]
    memory = history_curve("seconds", sizes, from_zero=False)
    yield figure("Speed", history_curve("seconds", speeds), "Transitions per second")
    yield figure(
        "Cost of a step", history_curve("transitions", costs), "CPU microseconds per transition"
    )
    yield figure("Memory", memory, "Memory in MB")


def _outcomes(title: str, outcomes: Sequence[Outcome]) -> Iterator[str]:
    if not outcomes:
        return
    items = []
    for outcome in outcomes:
        lines = [element("div", escape_text(line)) for line in phrases.answer_lines(outcome)]
        items.append(element("b", escape_text(phrases.question(outcome))) + "".join(lines))
    yield section(title, list_of("ul", items))


def _profile(profile: dict[str, Any]) -> Iterator[str]:
    if profile.get("why"):
        yield element("p", escape_text(str(profile["why"])))
    rows = [
        (
            entry["name"],
            format_percent(entry["share"]),
            format_figures(entry["own_s"]),
            "-" if entry.get("calls") is None else f"{entry['calls']:,}",
        )
        for entry in profile.get("top", ())
    ]
    if rows:
        yield table_of(("what", "share", "own s", "calls"), rows)
    if profile.get("files"):
        yield element("p", escape_text(f"Saved: {', '.join(map(str, profile['files']))}"))
