"""The examination: watch a loop, try what applies in alternating turns, and say what was found."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from contextlib import closing
from dataclasses import replace
from functools import partial
from time import perf_counter
from typing import Any, Protocol

import numpy as np

from briskrl import __version__
from briskrl.core.cpu import usable_cores
from briskrl.doctor.experiments.base import Experiment, Skipped, Subject, missing, outcome
from briskrl.doctor.findings import find, from_experiment, rank
from briskrl.doctor.observation import STRETCH_S, Observation, Watcher
from briskrl.doctor.paired_turns import FEWEST, Comparison, Loop, compare, take_turn
from briskrl.doctor.report.records import Finding, Moment, Outcome, Report, Speed
from briskrl.doctor.slowdown import growth, suspects
from briskrl.doctor.symptoms import many_updates, symptoms

WATCHED, PEELED = 0.2, 0.15
"""Shares of the budget for watching, and for a second look with the largest causes cured."""
WATCHED_S = 3.0
"""Shortest look at a loop."""
AGAIN_S, AGED = 1.0, 2.0
"""Second look, when the loop has aged, and how many times as old it should be."""
AGEING_S = 8.0
"""Seconds to get older that are granted beyond the budget if something seems to grow."""
COVERING = 1.3
"""Gain of a cause that may hide others."""
LEAST_S, MOST_S = 1.0, 10.0
"""Seconds for one experiment, apart from getting ready."""
BY_WALL = ("threads", "overlap", "env", "uneven-env", "device")
"""Causes that are about who runs where, so that waiting for a core belongs to the answer."""
OPENING_S = 3.0
"""Seconds that making a loop may take at the budget's expense."""
SETTLE_S = 5.0
"""Longest wait for a loop to begin to learn."""


class Teller(Protocol):
    """Who is told what goes on."""

    def __call__(self, doing: str, done: float) -> None:
        """`doing` is under way, and this share of the budget is spent."""
        ...


class Examination:
    """One subject, one budget.

    Args:
        subject: What is examined.
        budget_s: Seconds for all of it, more or less.
        tell: Told what goes on.
        stops: Whether to end early, asked between turns.
    """

    def __init__(
        self,
        subject: Subject,
        budget_s: float,
        tell: Teller = lambda doing, done: None,
        stops: Callable[[], bool] = lambda: False,
    ) -> None:
        self._subject = subject
        self._budget_s = budget_s
        self._tell = tell
        self._stops = stops
        self._began = perf_counter()
        self._load = os.getloadavg()[0] if hasattr(os, "getloadavg") else None
        self._seen: Observation | None = None
        self._symptoms: list[Finding] = []
        self._tried: list[tuple[Experiment, Outcome]] = []
        self._peeled: list[Finding] = []
        self._history: tuple[Moment, ...] = ()
        self._missing: list[Outcome] = []
        self._notes: list[str] = []
        self._interrupted = False

    def run(self) -> Report:
        """Examine; Ctrl-C and `stops` end it early with what is known so far.

        Raises:
            BriskError: The target cannot train at all.
        """
        try:
            self._say("getting ready")
            with closing(self._subject.open()) as loop:
                # The first start compiles, which may take longer than the examination.
                self._began = perf_counter()
                self._examine(loop)
        except KeyboardInterrupt:
            self._interrupted = True
        return self._report()

    def _examine(self, loop: Loop) -> None:
        watcher = Watcher(loop)
        self._say("watching")
        try:
            self._seen = watcher.watch(
                max(WATCHED_S, WATCHED * self._budget_s), lambda stretch: self._say("watching")
            )
        except KeyboardInterrupt:
            self._seen = watcher.observation()
            raise
        self._notes += [*self._subject.notes(), *self._seen.told()]
        self._symptoms = self._look(self._seen)
        planned = self._subject.experiments(self._seen)
        self._missing += [missing(item, item.why) for item in planned if isinstance(item, Skipped)]
        # What may end in advice comes before what only answers a question.
        wanted = sorted(
            (item for item in planned if isinstance(item, Experiment)),
            key=lambda item: (item.worth is None, -_share(self._seen, item.cause)),
        )
        if not any(item.cause == "updates" for item in wanted):
            self._symptoms += filter(None, [many_updates(self._seen)])
        for position, experiment in enumerate(wanted):
            left = self._left() - PEELED * self._budget_s
            if left < LEAST_S:
                self._missing += [missing(item, TOO_SHORT) for item in wanted[position:]]
                break
            # A few answers are worth more than many that nobody can be sure of.
            fair = max(left / (len(wanted) - position), conclusive_s(self._seen))
            found = self._try(loop, experiment, min(left, fair))
            self._tried.append((experiment, found))
        self._look_again(loop, watcher, self._seen)
        self._peel()

    def _look_again(self, loop: Loop, watcher: Watcher, seen: Observation) -> None:
        """Whether the loop has become slower with age; if it seems so, it gets older first."""
        self._say("watching again")
        if suspects(seen):
            end = perf_counter() + max(self._left() - AGAIN_S, AGEING_S)
            while loop.steps < AGED * seen.stretches[-1].steps and perf_counter() < end:
                take_turn(loop)
        self._history = watcher.watch(AGAIN_S).moments()
        finding, grown = growth(seen, watcher.last_look)
        if finding is not None:
            # That a phase takes long is no news where it grows.
            self._symptoms = [symptom for symptom in self._symptoms if symptom.cause not in grown]
            self._symptoms.append(finding)

    def _peel(self) -> None:
        """With the largest causes cured, look whether smaller ones show now."""
        cured = [f for f in find(self._tried, []) if f.changes and f.gain.factor >= COVERING]
        changes = {key: value for f in reversed(cured) for key, value in f.changes.items()}
        hidden = [
            experiment
            for experiment, found in self._tried
            if experiment.worth is not None
            and experiment.changes
            and not set(experiment.changes) & set(changes)
            and from_experiment(experiment, found) is None
        ]
        if not cured or not hidden:
            return
        base = self._subject.open_with(changes)
        if base is None:
            return
        with closing(base):
            settle(base)
            for position, experiment in enumerate(hidden):
                if self._left() < LEAST_S:
                    return
                combined = {**changes, **experiment.changes}
                again = replace(experiment, open=partial(self._open_with, combined))
                found = self._try(base, again, self._left() / (len(hidden) - position))
                finding = from_experiment(again, found)
                if finding is not None:
                    after = " and ".join(f.cause for f in cured)
                    self._peeled.append(replace(finding, after=after))

    def _open_with(self, changes: Mapping[str, Any]) -> Loop:
        loop = self._subject.open_with(changes)
        assert loop is not None
        return loop

    def _look(self, seen: Observation) -> list[Finding]:
        from briskrl.doctor.reference_costs import batched_write_s, gathered_sample_s

        obs_size = getattr(self._subject, "obs_size", 16)
        num_envs = self._subject.num_envs
        return symptoms(
            seen,
            num_envs=num_envs,
            write_s=lambda: batched_write_s(num_envs, obs_size),
            sample_s=lambda: gathered_sample_s(obs_size),
        )

    def _try(self, loop: Loop, experiment: Experiment, seconds: float) -> Outcome:
        """What an experiment shows, or that it failed."""
        seconds = min(MOST_S, max(LEAST_S, seconds))
        self._say(experiment.question)
        begin = perf_counter()
        try:
            with closing(experiment.open()) as other:
                # Compiling is paid once per machine and not by the budget.
                compiling = max(0.0, perf_counter() - begin - OPENING_S)
                self._began += compiling
                begin += compiling
                if loop.updates:
                    settle(other)
                left = seconds - (perf_counter() - begin)
                return outcome(experiment, self._compare(loop, other, experiment, left))
        except Exception as error:  # One experiment that fails must not cost the others.
            return missing(experiment, f"it failed ({type(error).__name__}: {error})")

    def _compare(
        self, loop: Loop, other: Loop, experiment: Experiment, seconds: float
    ) -> Comparison | None:
        return compare(
            loop,
            other,
            seconds=max(LEAST_S, seconds),
            by_wall=experiment.cause in BY_WALL,
            watched=self._watched() if experiment.lasts else None,
            stops=self._stops,
        )

    def _watched(self) -> float:
        """Steps per second of its own that the loop did while it was watched."""
        assert self._seen is not None
        return 1 / self._seen.s_per_step

    def _left(self) -> float:
        return self._budget_s - (perf_counter() - self._began)

    def _say(self, doing: str) -> None:
        if self._stops():
            raise KeyboardInterrupt
        self._tell(doing, min(1.0, 1 - self._left() / self._budget_s))

    def _report(self) -> Report:
        seen = self._seen
        return Report(
            target=self._subject.name,
            version=__version__,
            budget_s=self._budget_s,
            took_s=perf_counter() - self._began,
            load=self._load,
            speed=None if seen is None or not seen.stretches else self._speed(seen),
            coverage=0.0 if seen is None else seen.coverage,
            phases=() if seen is None else seen.phases,
            findings=rank([*find(self._tried, self._symptoms), *self._peeled]),
            outcomes=(*(found for _, found in self._tried), *self._missing),
            notes=tuple(self._notes),
            history=self._history or (() if seen is None else seen.moments()),
            interrupted=self._interrupted,
            cores=usable_cores(),
        )

    def _speed(self, seen: Observation) -> Speed:
        last = seen.stretches[-1]
        turns = [stretch.turn for stretch in seen.settled]
        steps = max(1, sum(turn.steps for turn in turns))
        return Speed(
            steps_per_s=1 / seen.wall_s_per_step,
            steps_per_cpu_s=1 / seen.cpu_s_per_step,
            cores_busy=sum(t.cpu_s for t in turns) / sum(t.wall_s for t in turns),
            updates_per_step=sum(turn.updates for turn in turns) / steps,
            num_envs=self._subject.num_envs,
            steps=last.steps,
            updates=last.updates,
            episodes=last.episodes,
            machine_fraction=self._subject.machine_fraction(seen),
        )


TOO_SHORT = "the budget is spent; give more --budget"


def settle(loop: Loop) -> None:
    """Let a new loop run until it learns; gives up after a few seconds, for it may never."""
    end = perf_counter() + SETTLE_S
    loop.enter()
    try:
        while not loop.updates and perf_counter() < end:
            loop.iterate()
    finally:
        loop.leave()


def conclusive_s(seen: Observation) -> float:
    """Seconds for as many pairs of turns as an interval needs, where turns take long."""
    usual = float(np.median([stretch.turn.wall_s for stretch in seen.settled]))
    # Where a stretch is no longer than it was asked to be, turns are short enough for any slice.
    is_long = usual > 1.5 * STRETCH_S
    return min(MOST_S, LEAST_S + 2 * FEWEST * usual) if is_long else LEAST_S


PHASES = {
    "env": ("env",),
    "uneven-env": ("env",),
    "engine": ("act", "update"),
    "updates": ("update", "sample"),
    "small-batch": ("update", "sample"),
    "overlap": ("update", "act"),
    "threads": ("update", "act"),
}
"""Phases that a cause can make cheaper; others have no phase of their own."""


def _share(seen: Observation | None, cause: str) -> float:
    """Share of the time that curing a cause could save at most."""
    if seen is None or cause not in PHASES:
        return 0.0
    return sum(map(seen.own_share, PHASES[cause]))


def examine(
    subject: Subject,
    *,
    budget_s: float,
    tell: Teller = lambda doing, done: None,
    stops: Callable[[], bool] = lambda: False,
) -> Report:
    """Examine a subject; see `Examination`."""
    return Examination(subject, budget_s, tell, stops).run()
