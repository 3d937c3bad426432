"""A page of sections, as Markdown with figures in files and as HTML with figures inside."""

from __future__ import annotations

import html
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from briskrl.core.format import strip_control_chars

if TYPE_CHECKING:
    from briskrl.plots.style import Figure

_STYLE = """\
:root { --ink: #1c2430; --soft: #5c6675; --line: #d9dde3; --wall: #2060b0; --cpu: #e07b00;
  --good: #2b8a3e; --bad: #c92a2a; --paper: #ffffff; }
@media (prefers-color-scheme: dark) { :root { --ink: #e6e9ee; --soft: #a3adba; --line: #3a4350;
  --wall: #6aa5f0; --cpu: #f0a040; --good: #5fc27a; --bad: #f07070; --paper: #14181f; } }
body { font: 15px/1.5 system-ui, sans-serif; color: var(--ink); background: var(--paper);
  max-width: 62rem; margin: 2rem auto; padding: 0 1rem; }
table { border-collapse: collapse; margin: 0.7rem 0; }
th, td { padding: 0.2rem 0.8rem 0.2rem 0; border-bottom: 1px solid var(--line); text-align: left;
  font-variant-numeric: tabular-nums; }
figure { margin: 1rem 0; } svg { max-width: 100%; height: auto; }
figcaption, .note { color: var(--soft); font-size: 0.9em; }
strong { font-weight: 600; }"""


@dataclass(frozen=True, slots=True)
class Table:
    """A table whose first row names the columns."""

    rows: Sequence[Sequence[str]]


@dataclass(frozen=True, slots=True)
class Picture:
    """A figure with a caption."""

    name: str
    """Of its file, without suffix."""
    figure: Figure
    caption: str


Block = str | Table | Picture
"""A paragraph, a table or a figure."""


@dataclass(frozen=True, slots=True)
class Section:
    """A heading and what is below it."""

    title: str
    blocks: list[Block] = field(default_factory=list)


def as_markdown(title: str, sections: Iterable[Section], *, figures: str) -> str:
    """The page as Markdown; figures are files `NAME.svg` in the folder `figures`."""
    parts = [f"# {_plain(title)}"]
    for section in sections:
        parts.append(f"## {_plain(section.title)}")
        for block in section.blocks:
            if isinstance(block, str):
                parts.append(_plain(block))
            elif isinstance(block, Table):
                parts.append(_markdown_table(block))
            else:
                caption = _plain(block.caption)
                parts.append(f"![{caption}]({figures}/{block.name}.svg)\n\n{caption}")
    return "\n\n".join(parts) + "\n"


def as_html(title: str, sections: Iterable[Section]) -> str:
    """The page as one HTML file."""
    body = [f"<h1>{_escape(title)}</h1>"]
    for section in sections:
        body.append(f"<h2>{_escape(section.title)}</h2>")
        body += [_html_block(block) for block in section.blocks]
    content = "\n".join(body)
    return (
        '<!doctype html>\n<html lang="en"><head><meta charset="utf-8">\n'
        '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
        f"<title>{_escape(title)}</title>\n<style>\n{_STYLE}\n</style></head>\n<body>\n{content}\n"
        "</body></html>\n"
    )


def pictures_of(sections: Iterable[Section]) -> list[Picture]:
    """All figures of the page."""
    return [b for section in sections for b in section.blocks if isinstance(b, Picture)]


def _html_block(block: Block) -> str:
    if isinstance(block, str):
        return f"<p>{_escape(block)}</p>"
    if isinstance(block, Table):
        head, *rows = block.rows
        names = "".join(f"<th>{_escape(cell)}</th>" for cell in head)
        lines = "\n".join(
            "<tr>" + "".join(f"<td>{_escape(cell)}</td>" for cell in row) + "</tr>" for row in rows
        )
        return f"<table>\n<tr>{names}</tr>\n{lines}\n</table>"
    from briskrl.plots import inline_svg

    svg = inline_svg(block.figure, block.caption)
    return f"<figure>{svg}<figcaption>{_escape(block.caption)}</figcaption></figure>"


def _markdown_table(table: Table) -> str:
    head, *rows = [[_cell(cell) for cell in row] for row in table.rows]
    lines = [head, ["---"] * len(head), *rows]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)


def _cell(text: str) -> str:
    return _plain(text).replace("|", "\\|")


def _plain(text: str) -> str:
    """Text of the user without control characters and without HTML."""
    return html.escape(strip_control_chars(text), quote=False)


def _escape(text: str) -> str:
    return html.escape(strip_control_chars(text))
