"""What parts of the source code cost: functions, statements and calls, with all that they call."""

from __future__ import annotations

import ast
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

from briskrl.doctor.report.records import Gain
from briskrl.doctor.script.observed import Observed
from briskrl.doctor.script.phases import Classified, is_own
from briskrl.doctor.script.recording import Code, Frame, sum_samples
from briskrl.doctor.script.source import Sources

LOOPS = ast.For | ast.While | ast.AsyncFor
SHOWN = 8
"""Lines of source in a finding, at most."""


@dataclass(frozen=True, slots=True)
class Lines:
    """Some lines of a function."""

    code: Code
    first: int
    last: int

    @property
    def location(self) -> str:
        """File and lines, as in `train.py:350-357`."""
        name = shown_path(self.code.file)
        return f"{name}:{self.first}" + (f"-{self.last}" if self.last > self.first else "")

    def holds(self, frame: Frame) -> bool:
        """Whether a frame is inside these lines."""
        same = frame.code.file == self.code.file and frame.code.line == self.code.line
        return same and frame.place is not None and self.first <= frame.place.line <= self.last


@dataclass(frozen=True, slots=True)
class Costs:
    """Shares of the time, by place in the source code."""

    seen: Observed
    sources: Sources

    def share(self, wanted: Callable[[Classified], bool]) -> float:
        """Share of the time in stacks that fulfill a condition."""
        stacks = self.seen.stacks
        found = sum(ticks for key, ticks in self.seen.ticks.items() if wanted(stacks[key]))
        return found / self.seen.total

    def late_share(self, wanted: Callable[[Classified], bool]) -> float:
        """The same in the second half of the time, when whatever happens once is over."""
        windows = self.seen.windows
        samples = sum_samples(windows[len(windows) // 2 :])
        found = sum(ticks for key, ticks in samples.items() if wanted(self.seen.stacks[key]))
        return found / max(1, samples.total())

    def share_of(self, lines: Lines) -> float:
        """Share of the time inside some lines, with all that they call."""
        return self.share(lambda item: any(map(lines.holds, item.stack.loop_frames)))

    def sampled(self, wanted: Callable[[Classified], bool]) -> Iterator[tuple[Classified, int]]:
        """Stacks that fulfill a condition, with their ticks."""
        for key, ticks in self.seen.ticks.items():
            if wanted(self.seen.stacks[key]):
                yield self.seen.stacks[key], ticks

    def seconds_per_call(self, share: float) -> float:
        """Seconds per call of the environments' step that a share of the time amounts to."""
        return share * self.seen.own_s / max(1, self.seen.calls)

    def hottest(self, wanted: Callable[[Classified], bool]) -> Lines | None:
        """The lines, in one function of the user, where most of some stacks were."""
        ticks: Counter[Code] = Counter()
        lines: dict[Code, Counter[int]] = {}
        for item, weight in self.sampled(wanted):
            frame = item.site
            if frame is not None and frame.place is not None:
                ticks[frame.code] += weight
                lines.setdefault(frame.code, Counter())[frame.place.line] += weight
        if not ticks:
            return None
        code = ticks.most_common(1)[0][0]
        return _span(code, lines[code])

    def asking(self, wanted: Callable[[ast.Call], bool]) -> Lines | None:
        """The first line of the user that makes a call of some kind."""
        codes = {item.site.code for item in self.seen.stacks.values() if item.site is not None}
        for file in sorted({code.file for code in codes}):
            nodes = ast.walk(self.sources.of(file).tree)
            lines = [node.lineno for node in nodes if isinstance(node, ast.Call) and wanted(node)]
            if lines:
                return Lines(Code(file, "<module>", 1, in_loop=True), min(lines), min(lines))
        return None

    def loop_around(self, wanted: Callable[[Classified], bool]) -> Lines | None:
        """The innermost loop of the user that holds most of some stacks, but no environment step.

        None if they are in no such loop.
        """
        found: Counter[tuple[Code, int, int]] = Counter()
        for item, weight in self.sampled(wanted):
            for frame in item.stack.loop_frames:
                loop = self._loop(frame)
                if loop is not None:
                    found[frame.code, loop.lineno, loop.end_lineno or loop.lineno] += weight
                    break
        if not found:
            return None
        (code, first, last), _ = found.most_common(1)[0]
        lines = Lines(code, first, last)
        return None if self._steps_env(lines) else lines

    def _steps_env(self, lines: Lines) -> bool:
        return (
            self.share(
                lambda item: "env" in item.tags and any(map(lines.holds, item.stack.loop_frames))
            )
            > 0
        )

    def _loop(self, frame: Frame) -> ast.stmt | None:
        """The innermost loop statement around a frame's line, in the user's own code."""
        if frame.place is None or not is_own(frame):
            return None
        around = self.sources.of(frame.code.file).enclosing(frame.code, frame.place.line)
        return next((node for node in reversed(around) if isinstance(node, LOOPS)), None)

    def text(self, lines: Lines) -> str:
        """The source of some lines, shortened."""
        last = min(lines.last, lines.first + SHOWN - 1)
        return self.sources.of(lines.code.file).text(lines.first, last)


def _span(code: Code, ticks: Counter[int]) -> Lines:
    """The lines that hold nearly all ticks, without stray ones."""
    enough = 0.02 * ticks.total()
    chosen = [line for line, weight in ticks.items() if weight >= enough]
    return Lines(code, min(chosen), max(chosen))


def shown_path(file: str) -> str:
    """A file as reports name it: relative to this folder if it is in it, or without folders."""
    path, here = Path(file), Path.cwd()
    return str(path.relative_to(here)) if path.is_relative_to(here) else path.name


def without(saved: float, ticks: int) -> Gain:
    """Gain if a share of the time is saved; the interval is that of the share of so many ticks."""
    saved = min(max(saved, 0.0), 0.995)
    # Ticks of one call come in groups, so the share is less certain than that of single draws.
    error = 2.5 * (saved * (1 - saved) / max(1, ticks)) ** 0.5
    low, high = max(0.0, saved - error), min(0.995, saved + error)
    return Gain(1 / (1 - saved), 1 / (1 - low), 1 / (1 - high))
