"""The report of a sweep as one page: its report.md with the figures inside."""

from __future__ import annotations

import base64
import html
import re
from collections.abc import Iterator
from pathlib import Path

from briskrl.cluster.sweep.report import write_report
from briskrl.plots.html_page import element, escape_text, list_of, page_of
from briskrl.reports.run_report import STYLE

_IMAGE = re.compile(r"!\[([^\]]*)\]\(([^)\s]+)\)")


def sweep_report(folder: Path) -> str:
    """The report of a sweep as a page; also writes its report.md and figures anew.

    Raises:
        BriskError: There is no sweep in the folder, or the report cannot be written.
    """
    text = write_report(folder)[0].read_text(encoding="utf-8")
    title, _, body = text.partition("\n")
    return page_of(title.lstrip("# "), page_parts(body, folder), style=STYLE)


def page_parts(text: str, folder: Path) -> Iterator[str]:
    """The markup of the Markdown that reports of sweeps are written in.

    Headings, paragraphs, lists, tables, fenced code and images in the folder; nothing else of
    Markdown means anything.
    """
    for block in _blocks(text):
        lines = block.splitlines()
        if block.startswith("```"):
            yield element("pre", "\n".join(escape_text(line) for line in lines[1:-1]))
        elif block.startswith("#"):
            level = len(block) - len(block.lstrip("#"))
            yield element(f"h{min(3, level)}", _inline(lines[0].lstrip("# ")))
            if lines[1:]:
                yield element("p", _inline(" ".join(lines[1:])))
        elif block.startswith("|"):
            yield _table(lines)
        elif block.startswith("- "):
            yield list_of("ul", [_inline(item) for item in _items(lines)])
        elif image := _IMAGE.fullmatch(block.strip()):
            yield _picture(image[1], image[2], folder)
        else:
            yield element("p", _inline(" ".join(lines)))


def _blocks(text: str) -> Iterator[str]:
    """Parts between empty lines; code is one part, whatever lines are in it."""
    kept: list[str] = []
    in_code = False
    for line in text.splitlines():
        in_code ^= line.startswith("```")
        if line.strip() or in_code:
            kept.append(line)
        elif kept:
            yield "\n".join(kept)
            kept = []
    if kept:
        yield "\n".join(kept)


def _items(lines: list[str]) -> list[str]:
    items: list[str] = []
    for line in lines:
        if line.startswith("- "):
            items.append(line[2:])
        else:
            items[-1] += " " + line.strip()
    return items


def _table(lines: list[str]) -> str:
    rows = [re.split(r"(?<!\\)\|", line.strip()[1:-1]) for line in lines]
    # The second line only draws the border below the head.
    rows = [row for number, row in enumerate(rows) if number != 1]
    cells = [[_inline(cell.strip().replace("\\|", "|")) for cell in row] for row in rows]
    head = element("tr", *(element("th", cell) for cell in cells[0]))
    body = [element("tr", *(element("td", cell) for cell in row)) for row in cells[1:]]
    table = element("table", element("thead", head), element("tbody", *body))
    return element("div", table, class_="scroll")


def _inline(text: str) -> str:
    """Text with code; entities that the report has escaped already are read first."""
    parts = html.unescape(text).split("`")
    return "".join(
        element("code", escape_text(part)) if number % 2 else escape_text(part)
        for number, part in enumerate(parts)
    )


def _picture(text: str, name: str, folder: Path) -> str:
    path = folder / name
    if path.suffix != ".svg" or not path.resolve().is_relative_to(folder.resolve()):
        return element("p", escape_text(text))
    data = base64.b64encode(path.read_bytes()).decode()
    image = element("img", src=f"data:image/svg+xml;base64,{data}", alt=text)
    return element("figure", image)
