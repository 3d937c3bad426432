"""A report as one page that needs nothing else: no scripts, and no styles from elsewhere."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from briskrl.core.format import figures, percent
from briskrl.doctor.report import phrases as words
from briskrl.doctor.report import plots as svg
from briskrl.doctor.report.markup import element, said
from briskrl.doctor.report.records import Finding, Outcome, PhaseRow, Report
from briskrl.doctor.report.sheet import SHEET

KINDS = {"helps": "good", "hurts": "bad"}
"""How an interval looks, by verdict."""


def as_html(report: Report) -> str:
    """The report as a whole page, which is well-formed XML too and of ASCII characters only."""
    title = f"Doctor's report of {report.target}"
    head = element(
        "head",
        element("meta", charset="utf-8"),
        element("meta", name="viewport", content="width=device-width, initial-scale=1"),
        # Whatever a name may contain, the browser is told to load and run nothing.
        element(
            "meta",
            http_equiv="Content-Security-Policy",
            content="default-src 'none'; style-src 'unsafe-inline'",
        ),
        element("title", said(title)),
        element("style", SHEET),
    )
    body = element("body", element("main", element("h1", said(title)), *_sections(report)))
    page = f"<!DOCTYPE html>\n{element('html', head, body, lang='en')}\n"
    # So it reads the same whatever encoding it is saved in.
    return page.encode("ascii", "xmlcharrefreplace").decode()


def _sections(report: Report) -> Iterator[str]:
    answers = words.answers(report)
    yield _head(report)
    yield from _phases(report)
    yield from _findings(report)
    yield from _plots(report)
    yield from _outcomes(words.TRADE_OFFS, answers.trade_offs)
    yield from _outcomes(words.NO_CURE, answers.no_cure)
    yield from _outcomes(words.MISSING, answers.missing)
    yield from _outcomes(words.IDLE, answers.idle)
    if report.notes:
        yield _section(words.NOTES, _list("ul", [said(note) for note in report.notes]))
    if report.proof is not None:
        yield from _outcomes(words.PROOF, [report.proof])
    if report.profile is not None:
        yield _section(f"{words.PROFILE} by {report.profile['kind']}", *_profile(report.profile))
    yield element("footer", said(f"briskrl {report.version}"))


def _head(report: Report) -> str:
    rows = [
        element("div", element("dt", said(name)), element("dd", said(told)))
        for name, told in words.headline(report)
    ]
    warnings = [element("p", said(told), class_="warning") for told in words.warnings(report)]
    return element("section", element("dl", *rows), *warnings)


def _phases(report: Report) -> Iterator[str]:
    if not report.phases:
        return
    rows = [svg.Bars(row.name, row.wall_s, row.cpu_s) for row in report.phases]
    legend = 'Seconds per million transitions: <b class="wall">wall</b> and <b class="cpu">CPU</b>'
    covered = f"The named phases are {100 * report.coverage:.1f}% of the wall time."
    table = _table(
        ("phase", "share", "wall s/M", "CPU s/M", "calls/M", "p50 us", "p95 us"),
        [_phase(row) for row in report.phases],
    )
    yield _section(
        words.PHASES,
        _figure(svg.bars("Seconds per million transitions", rows), legend),
        element("p", said(f"{covered} M is a million transitions.")),
        table,
    )


def _phase(row: PhaseRow) -> tuple[str, ...]:
    return (
        row.name,
        percent(row.share),
        figures(row.wall_s),
        figures(row.cpu_s),
        f"{row.calls:,}" if row.calls else "-",
        figures(row.p50_us) if row.calls else "-",
        figures(row.p95_us) if row.calls else "-",
    )


def _findings(report: Report) -> Iterator[str]:
    if not report.findings:
        yield _section(
            words.FINDINGS, element("p", said(words.nothing_found(report)), class_="all")
        )
        return
    items = ["".join(_finding(finding)) for finding in report.findings]
    yield _section(words.FINDINGS, _list("ol", items))


def _finding(finding: Finding) -> Iterator[str]:
    yield element("h3", said(finding.title))
    if finding.evidence:
        yield _list("ul", [said(line) for line in finding.evidence])
    told = (
        ("change", finding.advice),
        ("gain", words.gain_told(finding)),
        ("costs", words.cost_told(finding.alters_learning)),
    )
    yield element(
        "dl",
        *(
            element("div", element("dt", name), element("dd", said(text), class_=name))
            for name, text in told
        ),
    )


def _plots(report: Report) -> Iterator[str]:
    """Intervals of all experiments, and how the loop fared over time."""
    tried = [*report.outcomes, *([] if report.proof is None else [report.proof])]
    rows = [row for outcome in tried for row in _interval(outcome)]
    if rows:
        yield _section(
            "All experiments",
            _figure(
                svg.intervals("Experiments", rows),
                "Speed with the change over speed without it, with intervals of 95 %; "
                "to the right of 1 is faster",
            ),
        )
    if report.history:
        yield _section("Over time", element("div", *_curves(report), class_="plots"))


def _interval(outcome: Outcome) -> Iterator[svg.Interval]:
    gain = outcome.gain
    if gain is not None and gain.factor > 0:
        kind = KINDS.get(outcome.verdict, "plain")
        yield svg.Interval(outcome.name, gain.factor, gain.low, gain.high, kind)


def _curves(report: Report) -> Iterator[str]:
    history = report.history
    speeds = [(moment.at_s, moment.steps_per_s) for moment in history]
    costs = [(float(moment.steps), moment.cpu_us_per_step) for moment in history]
    sizes = [(moment.at_s, moment.rss_mb) for moment in history]
    yield _figure(svg.curve("Speed", "seconds", speeds), "Transitions per second")
    yield _figure(
        svg.curve("Cost of a step", "transitions", costs), "CPU microseconds per transition"
    )
    yield _figure(svg.curve("Memory", "seconds", sizes, from_zero=False), "Memory in MB")


def _outcomes(title: str, outcomes: Sequence[Outcome]) -> Iterator[str]:
    if not outcomes:
        return
    items = []
    for outcome in outcomes:
        told = [element("div", said(line)) for line in words.answer(outcome)]
        items.append(element("b", said(words.question(outcome))) + "".join(told))
    yield _section(title, _list("ul", items))


def _profile(profile: dict[str, Any]) -> Iterator[str]:
    if profile.get("why"):
        yield element("p", said(str(profile["why"])))
    rows = [
        (
            entry["name"],
            percent(entry["share"]),
            figures(entry["own_s"]),
            "-" if entry.get("calls") is None else f"{entry['calls']:,}",
        )
        for entry in profile.get("top", ())
    ]
    if rows:
        yield _table(("what", "share", "own s", "calls"), rows)
    if profile.get("files"):
        yield element("p", said(f"Saved: {', '.join(map(str, profile['files']))}"))


def _section(title: str, *inner: str) -> str:
    return element("section", element("h2", said(title)), *inner)


def _figure(plot: str, caption: str) -> str:
    """A plot under its caption, which is markup."""
    return element("figure", element("figcaption", caption), plot)


def _list(name: str, items: Sequence[str]) -> str:
    """A list of markup."""
    return element(name, *(element("li", item) for item in items))


def _table(titles: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """A table that scrolls by itself where the page is narrow; the first cells are names."""
    head = element("tr", *(element("th", said(title)) for title in titles))
    lines = [element("tr", *(element("td", said(cell)) for cell in row)) for row in rows]
    table = element("table", element("thead", head), element("tbody", *lines))
    return element("div", table, class_="scroll")
