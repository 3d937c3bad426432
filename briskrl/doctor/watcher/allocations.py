"""Which lines of the script allocate memory that stays, seen by `tracemalloc` for some seconds.

Tracing slows a script down two to four times, so it is on only for a moment. It sees objects of
Python and arrays of NumPy. Tensors of torch count with the line that made their Python object.
"""

from __future__ import annotations

import gc
import sys
import tracemalloc
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    Line = tuple[str, int]

DEEPEST, LINES = 16, 8
"""Frames that are kept of every allocation, and lines that are reported."""


class Allocations:
    """Traces allocations between two moments.

    Args:
        is_own: Whether a file is the user's.
        send: Writes records.
    """

    def __init__(
        self, is_own: Callable[[str], bool], send: Callable[[list[dict[str, Any]]], None]
    ) -> None:
        self._is_own = is_own
        self._send = send

    def trace(self, value: Any) -> list[Callable[[], None]]:
        """Begin; returns what ends it and sends the lines."""
        if tracemalloc.is_tracing():
            raise RuntimeError("the script traces its memory itself")
        gc.collect()
        tracemalloc.start(DEEPEST)
        return [self._end]

    def _end(self) -> None:
        gc.collect()
        found = _sizes_of_tensors(self._line_of)
        statistics = tracemalloc.take_snapshot().statistics("traceback")
        tracemalloc.stop()
        for item in statistics:
            line = self._line_of(item.traceback)
            if line is not None:
                size, count = found.get(line, (0, 0))
                found[line] = (size + item.size, count + item.count)
        largest = sorted(found.items(), key=lambda item: -item[1][0])[:LINES]
        rows = [[file, line, size, count] for (file, line), (size, count) in largest]
        self._send([{"allocated": rows}])

    def _line_of(self, frames: Iterable[Any]) -> Line | None:
        """The innermost line of the user in a stack, which begins with the outermost."""
        own = [(frame.filename, frame.lineno) for frame in frames if self._is_own(frame.filename)]
        return own[-1] if own else None


def _sizes_of_tensors(
    line_of: Callable[[Iterable[Any]], Line | None],
) -> dict[Line, tuple[int, int]]:
    """Bytes and number of new tensors by line; tensors that share memory count once."""
    torch = sys.modules.get("torch")
    kind = getattr(torch, "Tensor", None)
    found: dict[Line, tuple[int, int]] = {}
    counted: set[int] = set()
    if kind is None:
        return found
    for item in gc.get_objects():
        if type(item) is not kind:
            continue
        stack = tracemalloc.get_object_traceback(item)
        line = None if stack is None else line_of(stack)
        if line is None or item.data_ptr() in counted:
            continue
        counted.add(item.data_ptr())
        size, count = found.get(line, (0, 0))
        found[line] = (size + item.element_size() * item.numel(), count + 1)
    return found
