"""Observe a loop without changing it: phases by wall and CPU time, and its course over time."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from time import perf_counter, perf_counter_ns, process_time_ns

import numpy as np
import psutil

from briskrl.core.phase import PhaseStats, PhaseTimer
from briskrl.doctor.paired_turns import Loop, Turn, take_turn
from briskrl.doctor.report.records import Moment, PhaseRow

WINDOW_S = 0.1
"""Length of a window."""
MIN_WINDOWS, MAX_OVERRUN = 8, 2
"""Windows to observe at least, and how many times the requested time that may take."""
WAITING = 0.3
"""Share of a phase from which waiting counts; less is clock noise."""


@dataclass(frozen=True, slots=True)
class Window:
    """A few iterations, and the state of the process after them."""

    turn: Turn
    at_s: float
    steps: int
    updates: int
    episodes: int | None
    rss_mb: float
    writes: int | None
    """Write system calls since the process started; None where the system does not count them."""
    phases: Mapping[str, float] = field(default_factory=dict)
    """Seconds per phase, by the clock of this window (see `by_cpu`)."""
    by_cpu: bool = False
    """Whether phases are in CPU time; otherwise in wall time."""


@dataclass(frozen=True, slots=True)
class Observation:
    """Everything that was observed."""

    windows: tuple[Window, ...]
    phases: tuple[PhaseRow, ...]
    coverage: float

    @property
    def learning(self) -> tuple[Window, ...]:
        """Windows with updates, or all windows if updates are not counted."""
        found = tuple(window for window in self.windows if window.turn.updates)
        return found or self.windows

    @property
    def steady(self) -> tuple[Window, ...]:
        """The later half of `learning`, after a possible slow start."""
        windows = self.learning
        return windows[len(windows) // 2 :]

    def own_share(self, name: str) -> float:
        """Share of a phase in the loop's own time; 0 if there is no such phase.

        Wall time includes the time that other programs have the core, so computing counts by CPU
        time. Waiting (for a disk, a worker) counts by wall time, less its part of the time that
        the loop was runnable but not running.
        """
        contention = self._contention
        own = {row.name: (row.cpu_s or 0.0) + _waited(row, contention) for row in self.phases}
        return own.get(name, 0.0) / max(1e-12, sum(own.values()))

    def share_range(self, *names: str) -> tuple[float, float]:
        """10 % and 90 % quantiles over the windows of the combined share of some phases."""
        share = sum(map(self.own_share, names))
        rows = [row for row in self.phases if row.name in names]
        by_cpu = not any(_waited(row, self._contention) for row in rows)
        shares = [
            sum(window.phases.get(name, 0.0) for name in names) / sum(window.phases.values())
            for window in self.learning
            if window.by_cpu == by_cpu and sum(window.phases.values()) > 0
        ]
        low, high = np.quantile(shares or [share], (0.1, 0.9))
        return min(share, float(low)), max(share, float(high))

    @property
    def _contention(self) -> float:
        """Factor by which computing took longer because other programs had the core."""
        queued = sum(window.turn.queued_s for window in self.learning)
        return 1 + queued / max(1e-9, sum(s.turn.cpu_s for s in self.learning))

    @property
    def s_per_step(self) -> float:
        """Own seconds per transition, median of the steady windows."""
        return float(np.median([1 / s.turn.own_steps_per_s for s in self.steady]))

    @property
    def wall_s_per_step(self) -> float:
        """Wall seconds per transition, median of the steady windows."""
        return float(np.median([1 / s.turn.steps_per_s for s in self.steady]))

    @property
    def cpu_s_per_step(self) -> float:
        """CPU seconds per transition, median of the steady windows."""
        return float(np.median([1 / s.turn.steps_per_cpu_s for s in self.steady]))

    def notes(self) -> list[str]:
        """Facts for the report that are not findings."""
        first, turns = self.learning[0].turn, [window.turn for window in self.learning]
        queued = sum(turn.queued_s for turn in turns) / sum(turn.wall_s for turn in turns)
        grown = self.learning[-1].rss_mb - self.learning[0].rss_mb
        return [
            f"the first {first.wall_s:.1f} s of learning ran at "
            f"{first.own_steps_per_s * self.s_per_step:.2f} times the steady speed",
            f"the loop waited for a core {100 * queued:.0f} % of the time",
            f"memory grew by {grown:.1f} MB during the observation",
        ]

    def moments(self) -> tuple[Moment, ...]:
        """The windows as points for charts."""
        return tuple(
            Moment(
                at_s=window.at_s,
                steps=window.steps,
                steps_per_s=window.turn.steps_per_s,
                cpu_us_per_step=1e6 / window.turn.steps_per_cpu_s,
                rss_mb=window.rss_mb,
            )
            for window in self.windows
        )


class LoopObserver:
    """Observes a loop from its first iteration.

    Args:
        loop: A newly built loop.
    """

    def __init__(self, loop: Loop) -> None:
        self._loop = loop
        self._process = psutil.Process()
        self._start = perf_counter()
        self._windows: list[Window] = []
        self._starts: list[int] = []
        self._by_wall = _Tally()
        self._by_cpu = _Tally()

    def observe(
        self, seconds: float, on_window: Callable[[Window], None] = lambda s: None
    ) -> Observation:
        """Run the loop for `seconds` and return everything observed since its start.

        The seconds are the loop's own: if other programs have the core half of the time, it takes
        twice as long. Windows alternate between wall and CPU time, because reading two clocks at
        once would double the overhead.
        """
        begin, own_s, learning = perf_counter(), 0.0, 0
        self._starts.append(len(self._windows))
        while own_s < seconds or learning < MIN_WINDOWS:
            window = self._record_window(by_cpu=learning % 2 == 1)
            learning += bool(window.turn.updates or not self._loop.updates)
            own_s += window.turn.own_s
            on_window(window)
            if perf_counter() - begin > MAX_OVERRUN * seconds:
                break
        return self.observation()

    @property
    def last_windows(self) -> list[Window]:
        """Windows of the last call of `observe`."""
        return self._windows[self._starts[-1] :] if self._starts else []

    def observation(self) -> Observation:
        """Everything observed so far."""
        rows, coverage = _phase_rows(self._by_wall, self._by_cpu)
        return Observation(tuple(self._windows), rows, coverage)

    def _record_window(self, *, by_cpu: bool) -> Window:
        loop = self._loop
        tally = self._by_cpu if by_cpu else self._by_wall
        loop.timer.use(process_time_ns if by_cpu else perf_counter_ns)
        turn = take_turn(loop, WINDOW_S)
        if turn.updates or not loop.updates:
            tally.add(loop.timer, turn)
        phases = loop.timer.seconds()
        loop.timer.use(perf_counter_ns)
        window = Window(
            turn=turn,
            at_s=perf_counter() - self._start,
            steps=loop.steps,
            updates=loop.updates,
            episodes=loop.episodes,
            rss_mb=self._process.memory_info().rss / 2**20,
            writes=write_calls(self._process),
            phases=phases,
            by_cpu=by_cpu,
        )
        self._windows.append(window)
        return window


class _Tally:
    """Sums over the phases of several turns."""

    def __init__(self) -> None:
        self.steps = 0
        self.whole_s = 0.0
        self.seconds: dict[str, float] = {}
        self.calls: dict[str, int] = {}
        self.last: dict[str, PhaseStats] = {}

    def add(self, timer: PhaseTimer, turn: Turn) -> None:
        """Add a turn that started with the timer at zero."""
        self.last = timer.stats()
        self.steps += turn.steps
        self.whole_s += sum(stats.seconds for stats in self.last.values())
        for name, stats in self.last.items():
            self.seconds[name] = self.seconds.get(name, 0.0) + stats.seconds
            self.calls[name] = self.calls.get(name, 0) + stats.calls


def _phase_rows(by_wall: _Tally, by_cpu: _Tally) -> tuple[tuple[PhaseRow, ...], float]:
    """Phases, the most expensive first, and the share of the time that they cover."""
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


def _waited(row: PhaseRow, contention: float) -> float:
    """Seconds of a phase spent neither computing nor queued for a core."""
    wall_s = row.wall_s or 0.0
    waited = wall_s - (row.cpu_s or 0.0) * contention
    return waited if waited > WAITING * wall_s else 0.0


def write_calls(process: psutil.Process) -> int | None:
    """Write system calls of a process so far; None where the system does not count them."""
    try:
        return int(process.io_counters().write_count)
    except (AttributeError, psutil.Error, OSError):
        return None
