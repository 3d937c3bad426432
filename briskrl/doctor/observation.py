"""Looking at a loop without changing it: phases by two clocks, and how it fares over time."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from time import perf_counter, perf_counter_ns, process_time_ns

import numpy as np
import psutil

from briskrl.core.phase import PhaseStats, PhaseTimer
from briskrl.doctor.paired_turns import Loop, Turn, take_turn
from briskrl.doctor.report.records import Moment, PhaseRow

STRETCH_S = 0.1
"""How finely the loop's life is looked at."""
FEWEST_STRETCHES, LONGEST = 8, 2
"""Stretches that must have been seen, and how many times longer than asked that may take."""
WAITING = 0.3
"""Share of a phase that must be waiting for it to be believed; less is the clocks' unrest."""


@dataclass(frozen=True, slots=True)
class Stretch:
    """A few iterations of the loop's life, and where its process stood after them."""

    turn: Turn
    at_s: float
    steps: int
    updates: int
    episodes: int | None
    rss_mb: float
    writes: int | None
    """Calls to the system that write, since the process began; None where they are not told."""
    phases: Mapping[str, float] = field(default_factory=dict)
    """Seconds per phase, by the clock of this stretch."""
    by_cpu: bool = False
    """Whether that clock is the processor's."""


@dataclass(frozen=True, slots=True)
class Observation:
    """What was seen."""

    stretches: tuple[Stretch, ...]
    phases: tuple[PhaseRow, ...]
    coverage: float

    @property
    def learning(self) -> tuple[Stretch, ...]:
        """Stretches since the first update, or all if nobody counts updates."""
        found = tuple(stretch for stretch in self.stretches if stretch.turn.updates)
        return found or self.stretches

    @property
    def settled(self) -> tuple[Stretch, ...]:
        """The later half of those, which a slow start has no part in."""
        stretches = self.learning
        return stretches[len(stretches) // 2 :]

    def own_share(self, name: str) -> float:
        """Share of a phase in the loop's own time; 0 if there is no such phase.

        Shares of the wall time are at the mercy of whoever takes the core in the middle of a phase,
        so what computes counts by its CPU time. What waits (for a disk, a worker) counts by the
        wall, less its part of the time that the loop was ready but not running.
        """
        stretched = self._stretched
        own = {row.name: row.cpu_s + _waited(row, stretched) for row in self.phases}
        return own.get(name, 0.0) / max(1e-12, sum(own.values()))

    def share_range(self, *names: str) -> tuple[float, float]:
        """Between which the share of some phases together was in four of five stretches."""
        share = sum(map(self.own_share, names))
        rows = [row for row in self.phases if row.name in names]
        by_cpu = not any(_waited(row, self._stretched) for row in rows)
        shares = [
            sum(stretch.phases.get(name, 0.0) for name in names) / sum(stretch.phases.values())
            for stretch in self.learning
            if stretch.by_cpu == by_cpu and sum(stretch.phases.values()) > 0
        ]
        low, high = np.quantile(shares or [share], (0.1, 0.9))
        return min(share, float(low)), max(share, float(high))

    @property
    def _stretched(self) -> float:
        """How many times as long computing took because others had the core."""
        queued = sum(stretch.turn.queued_s for stretch in self.learning)
        return 1 + queued / max(1e-9, sum(s.turn.cpu_s for s in self.learning))

    @property
    def s_per_step(self) -> float:
        """Seconds of its own per transition, as a median of the settled stretches."""
        return float(np.median([1 / s.turn.own_steps_per_s for s in self.settled]))

    @property
    def wall_s_per_step(self) -> float:
        """Wall seconds per transition, likewise."""
        return float(np.median([1 / s.turn.steps_per_s for s in self.settled]))

    @property
    def cpu_s_per_step(self) -> float:
        """CPU seconds per transition, likewise."""
        return float(np.median([1 / s.turn.steps_per_cpu_s for s in self.settled]))

    def told(self) -> list[str]:
        """What a reader should know even if nothing is wrong with it."""
        first, turns = self.learning[0].turn, [stretch.turn for stretch in self.learning]
        queued = sum(turn.queued_s for turn in turns) / sum(turn.wall_s for turn in turns)
        grown = self.learning[-1].rss_mb - self.learning[0].rss_mb
        return [
            f"its first {first.wall_s:.1f} s of learning ran at "
            f"{first.own_steps_per_s * self.s_per_step:.2f} times the settled speed",
            f"it waited for a core {100 * queued:.0f} % of the time",
            f"memory grew by {grown:.1f} MB while it was watched",
        ]

    def moments(self) -> tuple[Moment, ...]:
        """The stretches as points of a plot."""
        return tuple(
            Moment(
                at_s=stretch.at_s,
                steps=stretch.steps,
                steps_per_s=stretch.turn.steps_per_s,
                cpu_us_per_step=1e6 / stretch.turn.steps_per_cpu_s,
                rss_mb=stretch.rss_mb,
            )
            for stretch in self.stretches
        )


class Watcher:
    """Watches a loop from its birth.

    Args:
        loop: The loop, newly made.
    """

    def __init__(self, loop: Loop) -> None:
        self._loop = loop
        self._process = psutil.Process()
        self._began = perf_counter()
        self._stretches: list[Stretch] = []
        self._looks: list[int] = []
        self._by_wall = _Tally()
        self._by_cpu = _Tally()

    def watch(
        self, seconds: float, on_stretch: Callable[[Stretch], None] = lambda s: None
    ) -> Observation:
        """Let the loop run for `seconds`, and tell all that has been seen since its birth.

        These are seconds of its own: where others have the core half of the time, it takes twice as
        long. Phases are counted by the wall and by the processor in turns: two clocks at once would
        cost twice as much.
        """
        begin, own_s, learnt = perf_counter(), 0.0, 0
        self._looks.append(len(self._stretches))
        while own_s < seconds or learnt < FEWEST_STRETCHES:
            # Before the loop learns there is little to see, and after it percentiles are settled.
            stretch = self._stretch(by_cpu=learnt % 2 == 1)
            learnt += bool(stretch.turn.updates or not self._loop.updates)
            own_s += stretch.turn.own_s
            on_stretch(stretch)
            if perf_counter() - begin > LONGEST * seconds:
                break
        return self.observation()

    @property
    def last_look(self) -> list[Stretch]:
        """Stretches since `watch` was last called."""
        return self._stretches[self._looks[-1] :] if self._looks else []

    def observation(self) -> Observation:
        """All that has been seen."""
        rows, coverage = _phase_rows(self._by_wall, self._by_cpu)
        return Observation(tuple(self._stretches), rows, coverage)

    def _stretch(self, *, by_cpu: bool) -> Stretch:
        loop = self._loop
        tally = self._by_cpu if by_cpu else self._by_wall
        loop.timer.use(process_time_ns if by_cpu else perf_counter_ns)
        turn = take_turn(loop, STRETCH_S)
        if turn.updates or not loop.updates:
            tally.add(loop.timer, turn)
        phases = loop.timer.seconds()
        loop.timer.use(perf_counter_ns)
        stretch = Stretch(
            turn=turn,
            at_s=perf_counter() - self._began,
            steps=loop.steps,
            updates=loop.updates,
            episodes=loop.episodes,
            rss_mb=self._process.memory_info().rss / 2**20,
            writes=write_calls(self._process),
            phases=phases,
            by_cpu=by_cpu,
        )
        self._stretches.append(stretch)
        return stretch


class _Tally:
    """Phases of several turns, added up."""

    def __init__(self) -> None:
        self.steps = 0
        self.whole_s = 0.0
        self.seconds: dict[str, float] = {}
        self.calls: dict[str, int] = {}
        self.last: dict[str, PhaseStats] = {}

    def add(self, timer: PhaseTimer, turn: Turn) -> None:
        """Add a turn that the timer was set back before."""
        self.last = timer.stats()
        self.steps += turn.steps
        self.whole_s += sum(stats.seconds for stats in self.last.values())
        for name, stats in self.last.items():
            self.seconds[name] = self.seconds.get(name, 0.0) + stats.seconds
            self.calls[name] = self.calls.get(name, 0) + stats.calls


def _phase_rows(by_wall: _Tally, by_cpu: _Tally) -> tuple[tuple[PhaseRow, ...], float]:
    """Phases, the dearest first, and the share of the time that they account for."""
    if not by_wall.whole_s:
        return (), 0.0
    million = 1e6 / max(1, by_wall.steps)
    cpu_million = 1e6 / max(1, by_cpu.steps)
    rows = [
        PhaseRow(
            name=name,
            share=seconds / by_wall.whole_s,
            wall_s=seconds * million,
            cpu_s=by_cpu.seconds.get(name, 0.0) * cpu_million,
            calls=round(by_wall.calls[name] * million),
            p50_us=by_wall.last[name].p50_us,
            p95_us=by_wall.last[name].p95_us,
        )
        for name, seconds in by_wall.seconds.items()
        if seconds > 0
    ]
    rows.sort(key=lambda row: -row.share)
    return tuple(rows), 1 - by_wall.seconds["other"] / by_wall.whole_s


def _waited(row: PhaseRow, stretched: float) -> float:
    """Seconds of a phase that are neither computing nor being kept from it."""
    waited = row.wall_s - row.cpu_s * stretched
    return waited if waited > WAITING * row.wall_s else 0.0


def write_calls(process: psutil.Process) -> int | None:
    """Calls to the system that write, of a process so far; None where they are not told."""
    try:
        return int(process.io_counters().write_count)
    except (AttributeError, psutil.Error, OSError):
        return None
