"""Which phase of the loop every sampled stack belongs to.

Some functions name their phase: the step of an environment, `backward`, a method of a buffer, a
print. The rest follows from where those were seen. A function in which updates happen, but no
environment steps, is part of learning; so is a statement of which that is true. A forward pass
elsewhere chooses actions. What remains is named by its function.
"""

from __future__ import annotations

import ast
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from briskrl.doctor.script.recording import Frame, Stack
from briskrl.doctor.script.source import Sources
from briskrl.doctor.script.tags import call_tag, function_tag, library_tag

OTHER, LOOP = "other", "loop"
"""No code of the script was seen; code between the calls of the function that takes steps."""
DIRECT = (
    *("compile", "eval", "log", "save", "wait", "gc", "make"),
    *("env", "store", "sample", "act", "update"),
)
"""Phases that a function or a call names; the first that occurs in a stack is its phase."""
FunctionKey = tuple[str, int]


@dataclass(frozen=True, slots=True)
class Classified:
    """A stack with its phase."""

    stack: Stack
    phase: str
    tags: frozenset[str]
    """Everything that functions in the stack do."""
    site: Frame | None
    """The innermost frame of the user's own files."""


@dataclass(frozen=True, slots=True)
class Rule:
    """A phase for a function, given by the user: `store=buffer.ReplayBuffer.add`."""

    phase: str
    function: str

    def matches(self, frame: Frame) -> bool:
        """Whether a frame runs this function."""
        if not frame.code.in_loop:
            return False
        module = frame.code.file.removesuffix(".py").replace("/", ".")
        full = f"{module}.{frame.code.name}"
        return full == self.function or full.endswith(f".{self.function}")


class PhaseMap:
    """Assigns phases to the stacks of one recording.

    Args:
        sources: Source files.
        rules: Phases that the user has given to functions.
    """

    def __init__(self, sources: Sources, rules: Sequence[Rule] = ()) -> None:
        self._sources = sources
        self._rules = rules
        self._lines: dict[FunctionKey, dict[str, set[int]]] = {}
        self._tags: dict[Frame, str] = {}

    def classify(self, stacks: Mapping[int, Stack]) -> dict[int, Classified]:
        """The phase of every stack; all together give the context."""
        direct = {key: self._direct(stack) for key, stack in stacks.items()}
        self._lines = _lines_by_tag((stacks[key], tags) for key, tags in direct.items())
        return {key: self._classified(stacks[key], tags) for key, tags in direct.items()}

    def _direct(self, stack: Stack) -> list[tuple[int, str]]:
        """Positions of frames that name a phase, and the phase, from the inside out."""
        found = []
        for position, frame in enumerate(stack.frames):
            tag = self._tag(frame, is_innermost=position == 0)
            if tag:
                found.append((position, tag))
        return found

    def _tag(self, frame: Frame, *, is_innermost: bool) -> str:
        rule = next((rule for rule in self._rules if rule.matches(frame)), None)
        if rule is not None:
            return rule.phase
        if not frame.code.in_loop:
            return library_tag(frame.code)
        if frame not in self._tags:
            self._tags[frame] = call_tag(frame, self._sources) or function_tag(frame, self._sources)
        return self._tags[frame]

    def _classified(self, stack: Stack, direct: Sequence[tuple[int, str]]) -> Classified:
        tags = [tag for _, tag in direct]
        site = next((frame for frame in stack.loop_frames if is_own(frame)), None)
        if site is None and stack.loop_frames:
            site = stack.loop_frames[0]
        return Classified(stack, self._phase(stack, tags), frozenset(tags), site)

    def _phase(self, stack: Stack, tags: Sequence[str]) -> str:
        # What is inside an environment is the environment, except for output and pauses.
        for tag in DIRECT:
            if tag in tags:
                return tag
        if any(self._is_learning(frame) for frame in stack.loop_frames):
            return "update"
        for frame in stack.loop_frames:
            phase = self._by_statement(frame)
            if phase:
                return phase
        if "forward" in tags:
            return "act"
        return self._by_function(stack)

    def _is_learning(self, frame: Frame) -> bool:
        """Whether a function does updates but takes no environment steps."""
        lines = self._lines.get(_key(frame), {})
        return bool(lines.get("update")) and not lines.get("env")

    def _by_statement(self, frame: Frame) -> str:
        """The phase of the largest statement around a line that has exactly one."""
        lines, place = self._lines.get(_key(frame), {}), frame.place
        if place is None:
            return ""
        found = ""
        for node in reversed(self._sources.of(frame.code.file).enclosing(frame.code, place.line)):
            phase = _phase_of(node, lines)
            if phase == "mixed":
                break
            found = phase or found
        return found

    def _by_function(self, stack: Stack) -> str:
        frames = [frame for frame in stack.loop_frames if is_own(frame)] or stack.loop_frames
        if not frames:
            return OTHER
        code = frames[0].code
        if code.name == "<module>" or self._lines.get(_key(frames[0]), {}).get("env"):
            return LOOP
        return f"{code.name.rsplit('.', 1)[-1]}()"


def _phase_of(node: ast.stmt, lines: Mapping[str, set[int]]) -> str:
    """What happens inside a statement: one phase, `mixed`, or nothing known."""
    last = node.end_lineno or node.lineno
    inside = {tag for tag, at in lines.items() if any(node.lineno <= line <= last for line in at)}
    if "env" in inside:
        return "mixed"
    if "update" in inside:
        return "update"
    if "forward" in inside:
        return "act"
    rest = inside & {"store", "sample", "log", "save"}
    return rest.pop() if len(rest) == 1 else ""


def _lines_by_tag(
    stacks: Iterable[tuple[Stack, Sequence[tuple[int, str]]]],
) -> dict[FunctionKey, dict[str, set[int]]]:
    """For every function, the lines inside which each kind of work was seen."""
    found: dict[FunctionKey, dict[str, set[int]]] = defaultdict(lambda: defaultdict(set))
    for stack, tagged in stacks:
        seen: set[str] = set()
        at = dict(tagged)
        for position, frame in enumerate(stack.frames):
            # A call counts for the function that makes it.
            if position in at:
                seen.add(at[position])
            if frame.place is not None:
                for tag in seen:
                    found[_key(frame)][tag].add(frame.place.line)
    return found


def _key(frame: Frame) -> FunctionKey:
    return frame.code.file, frame.code.line


def is_own(frame: Frame) -> bool:
    """Whether a file is the user's own, not of an installed package."""
    return "site-packages" not in frame.code.file and "dist-packages" not in frame.code.file
