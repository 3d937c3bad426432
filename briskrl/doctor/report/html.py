"""A report as one self-contained HTML page: no scripts, no resources from elsewhere."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from html import escape
from typing import TYPE_CHECKING, Any

from briskrl.core.format import format_figures, format_percent, strip_control_chars
from briskrl.doctor.report import phrases
from briskrl.doctor.report.records import Finding, Outcome, PhaseRow, Report
from briskrl.plots import (
    Interval,
    PhaseBar,
    experiment_intervals,
    history_curve,
    inline_svg,
    phase_bars,
)

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from briskrl.plots.report import Tone

TONES: dict[str, Tone] = {"helps": "good", "hurts": "bad"}
"""Color of an interval by verdict."""
EMPTY_ELEMENTS = frozenset({"meta"})
"""Elements without content; a browser takes any other that closes itself for one left open."""
STYLE = """
:root {
  color-scheme: light dark;
  --paper: #ffffff; --card: #f6f7f9; --ink: #1c2430; --soft: #5c6675; --line: #d9dde3;
  --wall: #2060b0; --cpu: #e07b00; --good: #2b8a3e; --bad: #c92a2a; --warn: #fff3d6;
}
@media (prefers-color-scheme: dark) {
  :root {
    --paper: #14181d; --card: #1d232a; --ink: #e4e8ee; --soft: #9aa5b3; --line: #343c46;
    --wall: #6ea8fe; --cpu: #ffb454; --good: #69db7c; --bad: #ff8787; --warn: #3a3114;
  }
}
* { box-sizing: border-box; }
body { margin: 0; background: var(--paper); color: var(--ink); }
body { font: 16px/1.5 system-ui, sans-serif; }
main { max-width: 62rem; margin: 0 auto; padding: 1rem; overflow-wrap: anywhere; }
h1 { font-size: 1.5rem; line-height: 1.25; }
h2 { font-size: 1.2rem; margin: 2rem 0 0.5rem; }
h3 { font-size: 1rem; margin: 0 0 0.25rem; }
p { margin: 0.5rem 0; }
dl { margin: 0; }
dl div { display: flex; gap: 0.75rem; padding: 0.15rem 0; }
dt { flex: 0 0 5rem; color: var(--soft); }
dd { margin: 0; }
ul, ol { margin: 0; padding-left: 1.4rem; }
li { margin: 0.4rem 0; }
ol > li { background: var(--card); padding: 0.75rem; border-radius: 0.5rem; margin: 0.75rem 0; }
ol ul { color: var(--soft); }
dd.gain, p.all { font-weight: 600; }
b.wall { color: var(--wall); }
b.cpu { color: var(--cpu); }
p.warning { background: var(--warn); padding: 0.5rem 0.75rem; border-radius: 0.5rem; }
figure { margin: 0.5rem 0; max-width: 40rem; }
figcaption { color: var(--soft); font-size: 0.9rem; }
.plots { display: grid; gap: 1rem; }
.plots { grid-template-columns: repeat(auto-fit, minmax(min(100%, 19rem), 1fr)); }
.scroll { overflow-x: auto; }
table { border-collapse: collapse; font-variant-numeric: tabular-nums; }
th, td { padding: 0.2rem 0.75rem; white-space: nowrap; text-align: right; }
th, td { border-bottom: 1px solid var(--line); }
th { color: var(--soft); font-weight: 400; }
th:first-child, td:first-child { text-align: left; padding-left: 0; }
footer { margin-top: 2rem; color: var(--soft); font-size: 0.9rem; }
svg { display: block; width: 100%; height: auto; stroke-linejoin: round; }
"""
"""One column, for light and dark screens, down to the width of a phone. The variables are also the
colors of the charts, see `briskrl.plots.style.CSS_COLORS`."""


def as_html(report: Report) -> str:
    """The report as a complete page: HTML that is also well-formed XML, in ASCII characters."""
    title = f"Doctor's report of {report.target}"
    head = element(
        "head",
        element("meta", charset="utf-8"),
        element("meta", name="viewport", content="width=device-width, initial-scale=1"),
        # The browser must load and run nothing, whatever a name contains.
        element(
            "meta",
            http_equiv="Content-Security-Policy",
            content="default-src 'none'; style-src 'unsafe-inline'",
        ),
        element("title", escape_text(title)),
        element("style", STYLE),
    )
    body = element("body", element("main", element("h1", escape_text(title)), *_sections(report)))
    page = f"<!DOCTYPE html>\n{element('html', head, body, lang='en')}\n"
    # ASCII reads the same in every encoding.
    return page.encode("ascii", "xmlcharrefreplace").decode()


def _sections(report: Report) -> Iterator[str]:
    answers = phrases.answers(report)
    yield _head(report)
    yield from _phases(report)
    yield from _findings(report)
    yield from _plots(report)
    yield from _outcomes(phrases.TRADE_OFFS, answers.trade_offs)
    yield from _outcomes(phrases.NO_GAIN, answers.no_gain)
    yield from _outcomes(phrases.MISSING, answers.missing)
    yield from _outcomes(phrases.NOT_APPLICABLE, answers.not_applicable)
    if report.notes:
        yield _section(phrases.NOTES, _list("ul", [escape_text(note) for note in report.notes]))
    if report.proof is not None:
        yield from _outcomes(phrases.VERIFICATION, [report.proof])
    if report.profile is not None:
        yield _section(f"{phrases.PROFILE} by {report.profile['kind']}", *_profile(report.profile))
    yield element("footer", escape_text(f"briskrl {report.version}"))


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
    rows = [PhaseBar(row.name, row.wall_s, row.cpu_s) for row in report.phases]
    legend = 'Seconds per million transitions: <b class="wall">wall</b> and <b class="cpu">CPU</b>'
    covered = f"The named phases cover {100 * report.coverage:.1f}% of the wall time."
    table = _table(
        ("phase", "share", "wall s/M", "CPU s/M", "calls/M", "p50 us", "p95 us"),
        [_phase(row) for row in report.phases],
    )
    yield _section(
        phrases.PHASES,
        _figure("Seconds per million transitions", phase_bars(rows), legend),
        element("p", escape_text(f"{covered} M is a million transitions.")),
        table,
    )


def _phase(row: PhaseRow) -> tuple[str, ...]:
    return (
        row.name,
        format_percent(row.share),
        format_figures(row.wall_s),
        format_figures(row.cpu_s),
        f"{row.calls:,}" if row.calls else "-",
        format_figures(row.p50_us) if row.calls else "-",
        format_figures(row.p95_us) if row.calls else "-",
    )


def _findings(report: Report) -> Iterator[str]:
    if not report.findings:
        yield _section(
            phrases.FINDINGS, element("p", escape_text(phrases.nothing_found(report)), class_="all")
        )
        return
    items = ["".join(_finding(finding)) for finding in report.findings]
    yield _section(phrases.FINDINGS, _list("ol", items))


def _finding(finding: Finding) -> Iterator[str]:
    yield element("h3", escape_text(finding.title))
    if finding.evidence:
        yield _list("ul", [escape_text(line) for line in finding.evidence])
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


def _plots(report: Report) -> Iterator[str]:
    """Charts of all experiments, and of speed, cost and memory over time."""
    tried = [*report.outcomes, *([] if report.proof is None else [report.proof])]
    rows = [row for outcome in tried for row in _interval(outcome)]
    if rows:
        yield _section(
            "All experiments",
            _figure(
                "Experiments",
                experiment_intervals(rows),
                "Speed with the change over speed without it, with 95 % intervals; right of 1 is "
                "faster",
            ),
        )
    if report.history:
        yield _section("Over time", element("div", *_curves(report), class_="plots"))


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
    yield _figure("Speed", history_curve("seconds", speeds), "Transitions per second")
    yield _figure(
        "Cost of a step", history_curve("transitions", costs), "CPU microseconds per transition"
    )
    yield _figure("Memory", memory, "Memory in MB")


def _outcomes(title: str, outcomes: Sequence[Outcome]) -> Iterator[str]:
    if not outcomes:
        return
    items = []
    for outcome in outcomes:
        lines = [element("div", escape_text(line)) for line in phrases.answer_lines(outcome)]
        items.append(element("b", escape_text(phrases.question(outcome))) + "".join(lines))
    yield _section(title, _list("ul", items))


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
        yield _table(("what", "share", "own s", "calls"), rows)
    if profile.get("files"):
        yield element("p", escape_text(f"Saved: {', '.join(map(str, profile['files']))}"))


def _section(title: str, *inner: str) -> str:
    return element("section", element("h2", escape_text(title)), *inner)


def _figure(title: str, chart: Figure, caption: str) -> str:
    """A chart under its caption, which is markup."""
    return element("figure", element("figcaption", caption), inline_svg(chart, title))


def _list(name: str, items: Sequence[str]) -> str:
    """A list of markup."""
    return element(name, *(element("li", item) for item in items))


def _table(titles: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """A table that scrolls where the page is narrow; its first column holds names."""
    head = element("tr", *(element("th", escape_text(title)) for title in titles))
    lines = [element("tr", *(element("td", escape_text(cell)) for cell in row)) for row in rows]
    table = element("table", element("thead", head), element("tbody", *lines))
    return element("div", table, class_="scroll")


def element(name: str, /, *inner: str, **attributes: str) -> str:
    """An element around markup; attributes are escaped, the markup is not.

    Args:
        name: Tag.
        inner: Markup, or text that went through `escape_text`.
        attributes: `class_` stands for `class`, and `_` within a name for `-`.
    """
    pairs = "".join(
        f' {key.rstrip("_").replace("_", "-")}="{escape_text(value)}"'
        for key, value in attributes.items()
    )
    if name in EMPTY_ELEMENTS:
        return f"<{name}{pairs}/>"
    return f"<{name}{pairs}>{''.join(inner)}</{name}>"


def escape_text(text: str) -> str:
    """Text as it may stand in a page, without control characters."""
    return escape(strip_control_chars(text))
