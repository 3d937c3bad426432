"""Source files of a script: which call a position is in, and which statements enclose a line."""

from __future__ import annotations

import ast
import linecache
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path

from briskrl.doctor.script.recording import Code, Place

Function = ast.FunctionDef | ast.AsyncFunctionDef


@dataclass
class Source:
    """A parsed file; empty if it cannot be read."""

    path: str
    lines: Sequence[str] = ()
    tree: ast.Module = field(default_factory=lambda: ast.Module([], []))

    @cached_property
    def functions(self) -> dict[int, Function]:
        """Functions by every line that may count as their first: of `def` and of decorators."""
        found = {}
        for node in ast.walk(self.tree):
            if isinstance(node, Function):
                for line in (node.lineno, *(item.lineno for item in node.decorator_list)):
                    found[line] = node
        return found

    @cached_property
    def classes(self) -> dict[str, ast.ClassDef]:
        """Classes by name."""
        return {node.name: node for node in ast.walk(self.tree) if isinstance(node, ast.ClassDef)}

    @cached_property
    def class_of(self) -> dict[int, ast.ClassDef]:
        """The class of a method, by the method's first lines."""
        found = {}
        for node in self.classes.values():
            for item in node.body:
                if isinstance(item, Function):
                    for line in (item.lineno, *(one.lineno for one in item.decorator_list)):
                        found[line] = node
        return found

    @cached_property
    def calls(self) -> dict[tuple[int, int | None, int, int | None], ast.Call]:
        """Calls by their position."""
        return {
            (node.lineno, node.col_offset, node.end_lineno or 0, node.end_col_offset): node
            for node in ast.walk(self.tree)
            if isinstance(node, ast.Call)
        }

    def call_at(self, place: Place) -> ast.Call | None:
        """The call that an instruction makes; None if it makes none."""
        key = (place.line, place.column, place.end_line, place.end_column)
        return self.calls.get(key)

    def body_of(self, code: Code) -> Sequence[ast.stmt]:
        """Statements of a function, or of the module."""
        if code.name == "<module>":
            return self.tree.body
        node = self.functions.get(code.line)
        return [] if node is None else node.body

    def enclosing(self, code: Code, line: int) -> list[ast.stmt]:
        """Statements of a function that contain a line, from the outside in."""
        found: list[ast.stmt] = []
        body = list(self.body_of(code))
        while True:
            inner = next((node for node in body if _contains(node, line)), None)
            if inner is None:
                return found
            found.append(inner)
            body = list(_blocks(inner))

    def text(self, first: int, last: int) -> str:
        """Lines of the file with their common indent removed."""
        chosen = [line.rstrip() for line in self.lines[first - 1 : last]]
        indents = [len(line) - len(line.lstrip()) for line in chosen if line]
        cut = min(indents, default=0)
        return "\n".join(line[cut:] for line in chosen)


class Sources:
    """Files, parsed once."""

    def __init__(self) -> None:
        self._files: dict[str, Source] = {}

    def of(self, path: str) -> Source:
        """The source of a file."""
        if path not in self._files:
            self._files[path] = _parse(path)
        return self._files[path]


def _parse(path: str) -> Source:
    try:
        # Cells of a notebook are in the cache only.
        text = "".join(linecache.getlines(path)) or Path(path).read_text(encoding="utf-8")
        return Source(path, text.splitlines(), ast.parse(text))
    except (OSError, SyntaxError, ValueError):  # Written by another Python, or not a file.
        return Source(path)


def called_name(call: ast.Call) -> str:
    """Name of the called function or method, with the names before it: `self.buffer.push`."""
    return dotted(call.func)


def dotted(node: ast.expr) -> str:
    """Names of a chain of attributes; other parts appear as `?`."""
    if isinstance(node, ast.Name):
        return node.id
    if isinstance(node, ast.Attribute):
        return f"{dotted(node.value)}.{node.attr}"
    if isinstance(node, ast.Call | ast.Subscript):
        return dotted(node.func if isinstance(node, ast.Call) else node.value)
    return "?"


def _contains(node: ast.stmt, line: int) -> bool:
    return node.lineno <= line <= (node.end_lineno or node.lineno)


def _blocks(node: ast.stmt) -> Iterator[ast.stmt]:
    """Statements directly inside a compound statement."""
    if isinstance(node, Function | ast.ClassDef):
        return
    for child in ast.iter_child_nodes(node):
        if isinstance(child, ast.stmt):
            yield child
        elif isinstance(child, ast.ExceptHandler | ast.match_case):
            yield from child.body
