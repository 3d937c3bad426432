"""Elements of pages and pictures, written so that nothing said in them can become an element."""

from __future__ import annotations

from html import escape

from briskrl.doctor.report.phrases import calm

EMPTY = frozenset({"meta", "circle", "path", "polyline", "rect"})
"""Elements that hold nothing. A page takes any other that closes itself for one left open."""


def element(name: str, /, *inner: str, **attributes: str | float) -> str:
    """An element around markup; the attributes are escaped, the markup is taken as it is.

    Args:
        name: Of the element.
        inner: Markup, or words that went through `said`.
        attributes: `class_` stands for `class`, and `_` within a name for `-`. Numbers are rounded
            to a tenth, which no eye can tell.
    """
    told = "".join(f' {_name(key)}="{_value(value)}"' for key, value in attributes.items())
    if name in EMPTY:
        return f"<{name}{told}/>"
    return f"<{name}{told}>{''.join(inner)}</{name}>"


def said(text: str) -> str:
    """Words as they may stand in a page."""
    return escape(calm(text))


def _name(key: str) -> str:
    return "viewBox" if key == "view_box" else key.rstrip("_").replace("_", "-")


def _value(value: str | float) -> str:
    return said(value) if isinstance(value, str) else f"{value:.1f}".removesuffix(".0")
