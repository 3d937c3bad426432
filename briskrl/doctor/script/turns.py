"""Alternating turns of a running script, with one setting changed in every other turn."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from math import log
from statistics import median
from time import perf_counter
from typing import Any

from briskrl.bench.compare import EARLY_CONFIDENCE, Estimate, estimate
from briskrl.doctor.report.records import Gain
from briskrl.doctor.script.process import ScriptProcess
from briskrl.doctor.script.recording import Clocks, Mark

TURN_S = 0.15
"""Shortest turn; it ends with the round of updates that is under way."""
LATE_S = 2.0
"""Longest wait for the end of a turn when the time is over."""
UNWATCHED = "unwatched"
"""The setting that consists of sending no ticks."""
FEWEST, MOST = 5, 24
"""Pairs of turns."""
LEADING = 5
"""Turns before the first change, for changes that may last."""
LASTING = 1.15
"""Gain since the first change from which it counts, as there are no pairs to rule out drift."""
NARROW = 0.04
"""Relative half width of an interval that needs no more turns."""


TOO_LONG = "one turn takes too long for this budget; increase --budget"


@dataclass(frozen=True, slots=True)
class Answer:
    """Speed with a change over speed without it."""

    gain: Gain | None
    pairs: int
    why: str = ""
    """Why there is no gain."""


class Alternation:
    """Turns with and without one change.

    Args:
        process: The running script.
        name: Setting that the watcher knows.
        value: Its value.
        lasting: The change may last beyond its turn, as a number that was flushed to zero stays
            zero. Then turns before the first change are compared with the later ones, too.
        by_wall: Count wall time; otherwise the script's own time, without waiting for a core.
        stops: True ends it early.
    """

    def __init__(
        self,
        process: ScriptProcess,
        name: str,
        value: Any,
        *,
        by_wall: bool = False,
        lasting: bool = False,
        stops: Callable[[], bool] = lambda: False,
    ) -> None:
        self._process = process
        self._setting = (name, value)
        self._by_wall = by_wall
        self._lasting = lasting
        self._before: list[float] = []
        self._after: list[float] = []
        self._stops = stops
        self._logs: list[float] = []
        self._end = 0.0

    def run(self, seconds: float) -> Answer:
        """Take turns until the answer is clear or the time is over."""
        self._end = perf_counter() + seconds
        try:
            return self._run()
        finally:
            self._process.switch("")
            self._process.end_turns()

    def _run(self) -> Answer:
        mark = self._begin(changed=False)
        if mark is None:
            return Answer(None, 0, "the script took no steps")
        if self._lasting:
            mark = self._lead(mark)
        rates: list[float] = []
        changed = False
        # The order of each pair is reversed in the next: old new, new old, old new, ...
        while perf_counter() < self._end and len(self._logs) < MOST and not self._stops():
            if changed and self._setting[0] == UNWATCHED:
                self._process.be_quiet(TURN_S)
            self._process.wait(TURN_S)
            following = (len(rates) + 1) % 4 in (1, 2)
            after = self._begin(changed=following)
            if after is None:
                ended = self._process.exit_code is not None
                return self._answer("the script has ended" if ended else TOO_LONG)
            if after.why and following:
                return Answer(None, 0, after.why)
            rates.append(self._rate(mark.begin, after.end))
            if len(rates) > 1 or changed:
                self._after.append(rates[-1])
            if len(rates) % 2 == 0:
                pair = rates[-2:] if not changed_first(len(rates) // 2) else rates[-2:][::-1]
                self._logs.append(log(max(pair[1], 1e-9) / max(pair[0], 1e-9)))
            mark, changed = after, following
            if len(self._logs) >= FEWEST and self._is_decided():
                break
        return self._answer(TOO_LONG)

    def _lead(self, mark: Mark) -> Mark:
        """Turns before the first change; returns the mark at their end."""
        while len(self._before) < LEADING and perf_counter() < self._end:
            self._process.wait(TURN_S)
            after = self._begin(changed=False)
            if after is None:
                break
            self._before.append(self._rate(mark.begin, after.end))
            mark = after
        return mark

    def _since_the_change(self) -> Estimate | None:
        """Speed of all turns after the first change over those before; None if unknown."""
        if len(self._before) < LEADING:
            return None
        usual = median(self._before)
        # The later half: numbers that fade or fill need some steps until they are gone.
        late = self._after[len(self._after) // 2 :]
        logs = [log(max(rate, 1e-9) / usual) for rate in late]
        spread = [log(max(rate, 1e-9) / usual) for rate in self._before]
        return estimate([after - before for after, before in zip(logs, spread, strict=False)])

    def _begin(self, *, changed: bool) -> Mark | None:
        """Ask for a turn and wait until it begins."""
        name, value = self._setting
        seconds = self._end + LATE_S - perf_counter()
        return self._process.switched(name if changed else "", value if changed else None, seconds)

    def _rate(self, begin: Clocks, end: Clocks) -> float:
        seconds = end.wall_s - begin.wall_s
        if not self._by_wall:
            seconds -= end.queued_s - begin.queued_s
        return (end.steps - begin.steps) / max(1e-9, seconds)

    def _is_decided(self) -> bool:
        early = estimate(self._logs, EARLY_CONFIDENCE)
        return _is_narrow(early) and (early.is_clear or _is_narrow(estimate(self._logs)))

    def _answer(self, why: str) -> Answer:
        found = estimate(self._logs)
        if found.pairs < 3:
            return Answer(None, found.pairs, why)
        since = self._since_the_change()
        if since is not None and since.low > max(LASTING, found.ratio):
            found = since
        return Answer(Gain(found.ratio, found.low, found.high), found.pairs)


def changed_first(pair: int) -> bool:
    """Whether the changed turn of a pair comes first."""
    return pair % 2 == 0


def _is_narrow(found: Estimate) -> bool:
    return log(found.high / max(1e-9, found.low)) < 2 * NARROW * max(1.0, abs(log(found.ratio)) * 3)
