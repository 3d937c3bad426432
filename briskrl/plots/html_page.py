"""Self-contained HTML pages: no scripts, no resources from elsewhere."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from html import escape
from typing import TYPE_CHECKING

from briskrl.core.format import strip_control_chars
from briskrl.plots.style import inline_svg

if TYPE_CHECKING:
    from matplotlib.figure import Figure

EMPTY_ELEMENTS = frozenset({"meta", "img"})
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
pre { font-size: 0.85rem; line-height: 1.4; margin: 0.5rem 0; overflow-x: auto; }
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


def page_of(title: str, body: Iterable[str], *, style: str = "") -> str:
    """A complete page: HTML that is also well-formed XML, in ASCII characters.

    Args:
        title: Title and first heading.
        body: Markup of its sections.
        style: Rules in addition to STYLE.
    """
    head = element(
        "head",
        element("meta", charset="utf-8"),
        element("meta", name="viewport", content="width=device-width, initial-scale=1"),
        # The browser must load and run nothing, whatever a name contains.
        element(
            "meta",
            http_equiv="Content-Security-Policy",
            content="default-src 'none'; style-src 'unsafe-inline'; img-src data:",
        ),
        element("title", escape_text(title)),
        element("style", STYLE + style),
    )
    main = element("main", element("h1", escape_text(title)), *body)
    page = f"<!DOCTYPE html>\n{element('html', head, element('body', main), lang='en')}\n"
    # ASCII reads the same in every encoding.
    return page.encode("ascii", "xmlcharrefreplace").decode()


def section(title: str, *inner: str) -> str:
    """A part of the page under a heading."""
    return element("section", element("h2", escape_text(title)), *inner)


def figure(title: str, chart: Figure, caption: str) -> str:
    """A chart under its caption, which is markup."""
    return element("figure", element("figcaption", caption), inline_svg(chart, title))


def list_of(name: str, items: Sequence[str]) -> str:
    """A list of markup."""
    return element(name, *(element("li", item) for item in items))


def table_of(titles: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """A table that scrolls where the page is narrow; its first column holds names."""
    head = element("tr", *(element("th", escape_text(title)) for title in titles))
    lines = [element("tr", *(element("td", escape_text(cell)) for cell in row)) for row in rows]
    table = element("table", element("thead", head), element("tbody", *lines))
    return element("div", table, class_="scroll")


def code_block(text: str) -> str:
    """Lines of source code, with their line breaks."""
    return element("pre", "\n".join(escape_text(line) for line in text.splitlines()))


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
