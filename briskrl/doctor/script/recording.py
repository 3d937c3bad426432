"""What the watcher has recorded, as the doctor reads it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any


@dataclass(frozen=True, slots=True)
class Code:
    """A function."""

    file: str
    name: str
    """Qualified name, from Python 3.11 on."""
    line: int
    in_loop: bool
    """Whether it is the user's or of a package that may hold a training loop."""


@dataclass(frozen=True, slots=True)
class Place:
    """A position in a source file; columns are unknown before Python 3.11."""

    line: int
    end_line: int
    column: int | None
    end_column: int | None


@dataclass(frozen=True, slots=True)
class Frame:
    """A function in a sampled stack, and where in it."""

    code: Code
    place: Place | None
    """None for libraries without training loops."""


@dataclass(frozen=True)
class Stack:
    """A sampled stack, from the inside out."""

    frames: tuple[Frame, ...]
    grad: bool
    """Whether gradients were recorded."""

    @cached_property
    def loop_frames(self) -> tuple[Frame, ...]:
        """Frames of the user and of packages with training loops."""
        return tuple(frame for frame in self.frames if frame.code.in_loop)


@dataclass(frozen=True, slots=True)
class Clocks:
    """Clocks and counters of the script at one moment."""

    wall_s: float
    cpu_s: float
    queued_s: float
    counts: Mapping[str, Any]

    @property
    def steps(self) -> int:
        """Transitions so far."""
        return int(self.counts["steps"])

    @property
    def updates(self) -> int:
        """Steps of optimizers so far."""
        return int(self.counts["updates"])

    @property
    def episodes(self) -> int:
        """Episodes that have ended so far."""
        return int(self.counts["episodes"])


@dataclass(frozen=True, slots=True)
class ScriptWindow:
    """A fraction of a second of the script."""

    begin: Clocks
    end: Clocks
    samples: Mapping[int, int]
    """Ticks by the number of the stack."""
    rss_mb: float
    changed: bool
    """Whether an experiment was under way."""
    cores: Mapping[int, float] = field(default_factory=dict)
    """Cores in use at the ticks of a stack, added up."""

    @property
    def wall_s(self) -> float:
        """Length of the window."""
        return self.end.wall_s - self.begin.wall_s

    @property
    def own_s(self) -> float:
        """Wall time without the time that other programs had the core."""
        return max(1e-9, self.wall_s - (self.end.queued_s - self.begin.queued_s))

    @property
    def cpu_s(self) -> float:
        """CPU seconds of all threads."""
        return self.end.cpu_s - self.begin.cpu_s

    @property
    def steps(self) -> int:
        """Transitions in this window."""
        return self.end.steps - self.begin.steps

    @property
    def updates(self) -> int:
        """Updates in this window."""
        return self.end.updates - self.begin.updates


@dataclass(frozen=True, slots=True)
class Mark:
    """A boundary between two turns of an experiment."""

    number: int
    end: Clocks
    """Before the setting was changed."""
    begin: Clocks
    """After it was changed."""
    why: str
    """Why the change was impossible; empty if it was made."""


@dataclass(frozen=True, slots=True)
class AllocatingLine:
    """A line of the user that has allocated memory which was still in use some seconds later."""

    file: str
    line: int
    size: int
    """Bytes."""
    count: int
    """Objects."""


@dataclass(slots=True)
class Recording:
    """Everything that the watcher has sent so far."""

    stacks: list[Stack] = field(default_factory=list)
    windows: list[ScriptWindow] = field(default_factory=list)
    marks: list[Mark] = field(default_factory=list)
    hello: Mapping[str, Any] | None = None
    has_ended: bool = False
    end_reason: str = ""
    state: Mapping[str, Any] = field(default_factory=dict)
    """The last record with counters."""
    errors: list[str] = field(default_factory=list)
    allocated: list[AllocatingLine] = field(default_factory=list)
    """Lines whose memory stayed while it was traced, the largest first."""
    _codes: dict[int, Code] = field(default_factory=dict)
    _places: dict[tuple[int, int], Place] = field(default_factory=dict)
    _samples: dict[int, int] = field(default_factory=dict)
    _cores: dict[int, float] = field(default_factory=dict)
    _last: Clocks | None = None

    def take(self, record: Mapping[str, Any], *, rss_mb: float, changed: bool) -> None:
        """Add a record."""
        if "code" in record:
            self._add_code(record)
        elif "at" in record:
            line, end_line, column, end_column = record["p"]
            place = Place(line or 1, end_line or line or 1, column, end_column)
            self._places[tuple(record["at"])] = place
        elif "key" in record:
            self.stacks.append(self._stack(record["k"]))
        elif "s" in record:
            for number, weight, cores in record["s"]:
                self._samples[number] = self._samples.get(number, 0) + weight
                self._cores[number] = self._cores.get(number, 0.0) + cores
        elif "allocated" in record:
            self.allocated = [AllocatingLine(*row) for row in record["allocated"]]
        elif "mark" in record:
            self._add_mark(record)
        elif "w" in record:
            self._add_window(record, rss_mb, changed)
        else:
            self._add_event(record)

    def _add_code(self, record: Mapping[str, Any]) -> None:
        number = record["code"]
        self._codes[number] = Code(record["f"], record["q"], record["l"], number > 0)

    def _stack(self, key: Sequence[int]) -> Stack:
        return Stack(tuple(self._frames(key)), grad=bool(key[0]))

    def _frames(self, key: Sequence[int]) -> Iterator[Frame]:
        at = 1
        while at < len(key):
            number = key[at]
            if number < 0:
                yield Frame(self._codes[number], None)
                at += 1
            else:
                yield Frame(self._codes[number], self._places[number, key[at + 1]])
                at += 2

    def _add_mark(self, record: Mapping[str, Any]) -> None:
        begin = {**record["from"], "w": record["w"]}
        self.marks.append(Mark(record["mark"], _clocks(record), _clocks(begin), record["why"]))

    def _add_window(self, record: Mapping[str, Any], rss_mb: float, changed: bool) -> None:
        now = _clocks(record)
        if self._last is not None:
            window = ScriptWindow(self._last, now, self._samples, rss_mb, changed, self._cores)
            self.windows.append(window)
        self._last, self._samples, self._cores = now, {}, {}
        self.state = record

    def _add_event(self, record: Mapping[str, Any]) -> None:
        if "hello" in record:
            self._begin(record)
        elif "bye" in record:
            self.has_ended = True
            self.end_reason = record.get("why", "")
        elif "error" in record:
            self.errors.append(record["error"])

    def _begin(self, record: Mapping[str, Any]) -> None:
        """A script begins; one that has replaced itself by another begins anew."""
        self.hello, self.has_ended, self.end_reason, self.state = record, False, "", {}
        for known in (
            self.stacks,
            self.windows,
            self._codes,
            self._places,
            self._samples,
            self._cores,
        ):
            known.clear()
        self._last = None

    @property
    def started_steps(self) -> bool:
        """Whether an environment has been stepped."""
        return bool(self.windows) and self.windows[-1].end.steps > 0

    @property
    def started(self) -> list[ScriptWindow]:
        """Windows since the first environment step; all if none were seen."""
        found = [window for window in self.windows if window.begin.steps]
        return found or self.windows

    @property
    def plain(self) -> list[ScriptWindow]:
        """Windows of the loop without experiments."""
        return [window for window in self.started if not window.changed]

    @property
    def learning(self) -> list[ScriptWindow]:
        """Windows without experiments from the first update on; all if no updates were seen."""
        windows = self.plain
        first = next((at for at, window in enumerate(windows) if window.updates), 0)
        return windows[first:]


def sum_samples(windows: Sequence[ScriptWindow]) -> Counter[int]:
    """Ticks by the number of the stack over some windows."""
    total: Counter[int] = Counter()
    for window in windows:
        total.update(window.samples)
    return total


def _clocks(record: Mapping[str, Any]) -> Clocks:
    return Clocks(record["t"], record["cpu"], record["queued"], record["w"])
