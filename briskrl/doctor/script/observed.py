"""What a recording shows: speed, phases, counters, and the course over time."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from briskrl.doctor.report.records import Moment, PhaseRow, Speed
from briskrl.doctor.script.phases import OTHER, Classified, PhaseMap
from briskrl.doctor.script.recording import AllocatingLine, Recording, ScriptWindow, sum_samples

MOMENTS = 120
"""Points of the charts over time, at most."""

CROWDED = 0.1
"""Share of the time that the script was ready to run but had no core, from which it matters."""


@dataclass(frozen=True, slots=True)
class Observed:
    """The unchanged script up to some moment.

    Args:
        windows: Windows of the loop without experiments, from the first update on.
        stacks: Their stacks with their phases, by number.
        ticks: Ticks by the number of the stack, in these windows.
        state: The last record with counters.
        allocated: Lines whose memory stays, if it was traced.
    """

    windows: Sequence[ScriptWindow]
    stacks: Mapping[int, Classified]
    ticks: Counter[int]
    state: Mapping[str, object]
    allocated: Sequence[AllocatingLine] = ()

    @property
    def total(self) -> int:
        """All ticks."""
        return max(1, self.ticks.total())

    @property
    def steps(self) -> int:
        """Transitions in these windows."""
        return sum(window.steps for window in self.windows)

    @property
    def calls(self) -> int:
        """Calls of the environments' step in these windows."""
        return self._counted("calls")

    @property
    def updates(self) -> int:
        """Steps of optimizers in these windows."""
        return sum(window.updates for window in self.windows)

    @property
    def episodes(self) -> int:
        """Episodes that ended in these windows."""
        return self._counted("episodes")

    def _counted(self, name: str) -> int:
        return sum(int(w.end.counts[name]) - int(w.begin.counts[name]) for w in self.windows)

    @property
    def wall_s(self) -> float:
        """Seconds of these windows."""
        return max(1e-9, sum(window.wall_s for window in self.windows))

    @property
    def own_s(self) -> float:
        """Seconds without those in which other programs had the core."""
        return sum(window.own_s for window in self.windows)

    @property
    def cpu_s(self) -> float:
        """CPU seconds of all threads."""
        return max(1e-9, sum(window.cpu_s for window in self.windows))

    @property
    def collecting(self) -> float:
        """Share of the time that garbage collection takes."""
        if not self.windows:
            return 0.0
        begin, end = self.windows[0].begin.counts, self.windows[-1].end.counts
        return float(end["gc_s"] - begin["gc_s"]) / self.wall_s

    @property
    def is_crowded(self) -> bool:
        """Whether other programs had the core for a noticeable part of the time."""
        return 1 - self.own_s / self.wall_s > CROWDED

    @property
    def num_envs(self) -> int:
        """Transitions per step of the loop."""
        return max(1, round(self.steps / self.calls)) if self.calls else 1

    @property
    def updates_per_step(self) -> float:
        """Updates per transition."""
        return self.updates / max(1, self.steps)

    @property
    def optimizers(self) -> float:
        """Optimizers that take turns, as those of actor and critic; 1 if there is only one."""
        steps = self.state.get("optimizer_steps")
        return sum(steps) / max(steps) if isinstance(steps, list) and steps else 1.0

    @property
    def updates_per_round(self) -> float:
        """Updates between two environment steps, where there are any."""
        return self.updates / max(1, self._counted("rounds"))

    @property
    def calls_per_round(self) -> float:
        """Environment steps between two series of updates."""
        return self.calls / max(1, self._counted("rounds"))

    @property
    def batch_size(self) -> int | None:
        """The most frequent number of rows of a forward pass with gradients."""
        return _mode(self._rows(0))

    @property
    def act_rows(self) -> int | None:
        """The smallest number of rows of a forward pass without gradients."""
        sizes = self._rows(1)
        return min(sizes, default=None)

    def _rows(self, kind: int) -> dict[int, int]:
        rows = self.state.get("rows")
        if not isinstance(rows, list):
            return {}
        return {int(size): int(times) for size, times in rows[kind].items()}

    def share(self, *phases: str) -> float:
        """Share of some phases in the time."""
        return self._share_of(lambda item: item.phase in phases)

    def _share_of(self, wanted: object) -> float:
        assert callable(wanted)
        found = sum(ticks for key, ticks in self.ticks.items() if wanted(self.stacks[key]))
        return found / self.total

    def by_phase(self) -> Counter[str]:
        """Ticks by phase."""
        found: Counter[str] = Counter()
        for key, ticks in self.ticks.items():
            found[self.stacks[key].phase] += ticks
        return found

    @property
    def coverage(self) -> float:
        """Share of the time with a known phase."""
        return 1 - self.share(OTHER) if self.ticks else 0.0

    @property
    def counting(self) -> float:
        """Share of the time that counting steps takes, as measured in the script."""
        per_call = self.state.get("hook_s")
        return self.calls * per_call / max(1e-9, self.own_s) if isinstance(per_call, float) else 0.0

    def cpu_by_phase(self) -> dict[str, float]:
        """CPU seconds of all threads by phase; empty if cores in use were not measured."""
        found: Counter[str] = Counter()
        for window in self.windows:
            for key, cores in window.cores.items():
                found[self.stacks[key].phase] += cores  # type: ignore[assignment]
        total = found.total()
        return {name: self.cpu_s * cores / total for name, cores in found.items()} if total else {}

    def phases(self) -> tuple[PhaseRow, ...]:
        """The cost of every phase, the largest first."""
        per_million = 1e6 / self.steps if self.steps else None
        cpu = self.cpu_by_phase()
        return tuple(
            PhaseRow(
                name=name,
                share=ticks / self.total,
                wall_s=None
                if per_million is None
                else ticks / self.total * self.wall_s * per_million,
                cpu_s=None if per_million is None or not cpu else cpu.get(name, 0.0) * per_million,
                calls=0,
                p50_us=0.0,
                p95_us=0.0,
            )
            for name, ticks in self.by_phase().most_common()
        )

    def speed(self) -> Speed | None:
        """Speed of the loop; None if no steps were counted."""
        if not self.steps:
            return None
        return Speed(
            steps_per_s=self.steps / self.wall_s,
            steps_per_cpu_s=self.steps / self.cpu_s,
            cores_busy=self.cpu_s / self.wall_s,
            updates_per_step=self.updates_per_step,
            num_envs=self.num_envs,
            steps=self.steps,
            updates=self.updates,
            episodes=self.episodes,
            machine_fraction=None,
        )

    def moments(self) -> tuple[Moment, ...]:
        """Speed, cost and memory over time."""
        if not self.windows:
            return ()
        size = -(-len(self.windows) // MOMENTS)
        start = self.windows[0].begin.wall_s
        groups = [self.windows[at : at + size] for at in range(0, len(self.windows), size)]
        return tuple(_moment(group, start) for group in groups if sum(w.steps for w in group))


def _moment(windows: Sequence[ScriptWindow], start: float) -> Moment:
    steps, last = sum(window.steps for window in windows), windows[-1]
    return Moment(
        at_s=last.end.wall_s - start,
        steps=last.end.steps,
        steps_per_s=steps / max(1e-9, sum(window.wall_s for window in windows)),
        cpu_us_per_step=1e6 * sum(window.cpu_s for window in windows) / steps,
        rss_mb=last.rss_mb,
    )


def _mode(sizes: Mapping[int, int]) -> int | None:
    return max(sizes, key=lambda size: sizes[size], default=None)


def observe(recording: Recording, phases: PhaseMap) -> Observed:
    """What a recording shows about the unchanged loop so far, from its first update on."""
    windows = recording.learning
    ticks = sum_samples(windows)
    stacks = phases.classify({key: recording.stacks[key] for key in ticks})
    return Observed(windows, stacks, ticks, recording.state, tuple(recording.allocated))
