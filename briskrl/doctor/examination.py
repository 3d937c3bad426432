"""Examine a training loop: observe it, run experiments in alternating turns, report findings."""

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
from briskrl.core.exit_watch import nothing_to_lose
from briskrl.doctor.experiments.base import Experiment, Skipped, Target, missing, outcome
from briskrl.doctor.findings import find, from_experiment, rank
from briskrl.doctor.observation import WINDOW_S, LoopObserver, Observation
from briskrl.doctor.paired_turns import FEWEST, Comparison, Loop, compare, take_turn
from briskrl.doctor.report.records import Finding, Moment, Outcome, Report, Speed
from briskrl.doctor.slowdown import find_slowdown, rising_phases
from briskrl.doctor.symptoms import many_updates, symptoms

OBSERVE_SHARE, HIDDEN_SHARE = 0.2, 0.15
"""Shares of the budget for observing, and for experiments with the largest causes fixed."""
OBSERVED_S = 3.0
"""Shortest observation."""
AGAIN_S, AGED = 1.0, 2.0
"""Seconds of the second observation, and how many times as many steps should lie before it."""
AGING_S, AGING = 8.0, 0.15
"""Seconds beyond the budget to run on before it, if a cost seems to grow, and at most that share
of the budget."""
COVERING = 1.3
"""Gain from which a cause may hide others."""
LEAST_S, MOST_S = 1.0, 10.0
"""Seconds for one experiment, without preparation."""
BY_WALL = ("threads", "overlap", "env", "uneven-env", "device")
"""Causes about the use of cores, for which waiting for a core is part of the result."""
OPENING_S = 3.0
"""Seconds of building a loop that count against the budget."""
LEARNING_WAIT_S = 5.0
"""Longest wait for the first update of a loop."""


class ProgressCallback(Protocol):
    """Called with the progress of an examination."""

    def __call__(self, doing: str, done: float) -> None:
        """The current activity, and the share of the budget that is used."""
        ...


class Examination:
    """The examination of one target within one budget.

    Args:
        target: The loop to examine.
        budget_s: Approximate seconds for everything.
        progress: Called with the current activity.
        stops: Called between turns; True ends the examination early.
    """

    def __init__(
        self,
        target: Target,
        budget_s: float,
        progress: ProgressCallback = lambda doing, done: None,
        stops: Callable[[], bool] = lambda: False,
    ) -> None:
        self._target = target
        self._budget_s = budget_s
        self._progress = progress
        self._stops = stops
        self._start = perf_counter()
        self._load = os.getloadavg()[0] if hasattr(os, "getloadavg") else None
        self._seen: Observation | None = None
        self._symptoms: list[Finding] = []
        self._tried: list[tuple[Experiment, Outcome]] = []
        self._hidden: list[Finding] = []
        self._history: tuple[Moment, ...] = ()
        self._missing: list[Outcome] = []
        self._notes: list[str] = []
        self._interrupted = False

    def run(self) -> Report:
        """Run the examination; Ctrl-C and `stops` end it early with a partial report.

        Raises:
            BriskError: The target cannot be trained.
        """
        try:
            self._report_progress("preparing")
            with nothing_to_lose():
                loop = self._target.open()
            with closing(loop):
                # The first start compiles, which may take longer than the whole budget.
                self._start = perf_counter()
                self._examine(loop)
        except KeyboardInterrupt:
            self._interrupted = True
        return self._report()

    def _examine(self, loop: Loop) -> None:
        observer = LoopObserver(loop)
        self._report_progress("observing")
        try:
            self._seen = observer.observe(
                max(OBSERVED_S, OBSERVE_SHARE * self._budget_s),
                lambda window: self._report_progress("observing"),
            )
        except KeyboardInterrupt:
            self._seen = observer.observation()
            raise
        self._notes += [*self._target.notes(), *self._seen.notes()]
        self._symptoms = self._find_symptoms(self._seen)
        planned = self._target.experiments(self._seen)
        self._missing += [missing(item, item.why) for item in planned if isinstance(item, Skipped)]
        # Experiments that may lead to advice come before those that only answer a question.
        wanted = sorted(
            (item for item in planned if isinstance(item, Experiment)),
            key=lambda item: (item.worth is None, -_share(self._seen, item.cause)),
        )
        if not any(item.cause == "updates" for item in wanted):
            self._symptoms += filter(None, [many_updates(self._seen)])
        for position, experiment in enumerate(wanted):
            left = self._left() - HIDDEN_SHARE * self._budget_s
            if left < LEAST_S:
                self._missing += [missing(item, TOO_SHORT) for item in wanted[position:]]
                break
            # A few clear answers are worth more than many unclear ones.
            fair = max(left / (len(wanted) - position), conclusive_s(self._seen))
            found = self._try(loop, experiment, min(left, fair))
            self._tried.append((experiment, found))
        self._check_slowdown(loop, observer, self._seen)
        self._test_hidden_causes()

    def _check_slowdown(self, loop: Loop, observer: LoopObserver, seen: Observation) -> None:
        """Find costs that grow with the number of steps; if there seem to be any, run on first."""
        self._report_progress("checking for slowdown")
        if rising_phases(seen):
            aging_s = min(AGING_S, AGING * self._budget_s)
            end = perf_counter() + max(self._left() - AGAIN_S, aging_s)
            while loop.steps < AGED * seen.windows[-1].steps and perf_counter() < end:
                take_turn(loop)
        self._history = observer.observe(AGAIN_S).moments()
        finding, grown = find_slowdown(seen, observer.last_windows)
        if finding is not None:
            # A growing phase is one finding, not two.
            self._symptoms = [symptom for symptom in self._symptoms if symptom.cause not in grown]
            self._symptoms.append(finding)

    def _test_hidden_causes(self) -> None:
        """With the largest causes fixed, repeat experiments that showed no gain."""
        fixed = [f for f in find(self._tried, []) if f.changes and f.gain.factor >= COVERING]
        changes = {key: value for f in reversed(fixed) for key, value in f.changes.items()}
        hidden = [
            experiment
            for experiment, found in self._tried
            if experiment.worth is not None
            and experiment.changes
            and not set(experiment.changes) & set(changes)
            and from_experiment(experiment, found) is None
        ]
        if not fixed or not hidden:
            return
        base = self._target.open_with(changes)
        if base is None:
            return
        with closing(base):
            run_until_learning(base)
            for position, experiment in enumerate(hidden):
                if self._left() < LEAST_S:
                    return
                combined = {**changes, **experiment.changes}
                again = replace(experiment, open=partial(self._open_with, combined))
                found = self._try(base, again, self._left() / (len(hidden) - position))
                finding = from_experiment(again, found)
                if finding is not None:
                    after = " and ".join(f.cause for f in fixed)
                    self._hidden.append(replace(finding, after=after))

    def _open_with(self, changes: Mapping[str, Any]) -> Loop:
        loop = self._target.open_with(changes)
        assert loop is not None
        return loop

    def _find_symptoms(self, seen: Observation) -> list[Finding]:
        from briskrl.doctor.reference_costs import batched_write_s, gathered_sample_s

        num_envs, obs_size = self._target.num_envs, self._target.obs_size
        return symptoms(
            seen,
            num_envs=num_envs,
            write_s=lambda: batched_write_s(num_envs, obs_size),
            sample_s=lambda: gathered_sample_s(obs_size),
        )

    def _try(self, loop: Loop, experiment: Experiment, seconds: float) -> Outcome:
        """The outcome of an experiment, which may be that it failed."""
        seconds = min(MOST_S, max(LEAST_S, seconds))
        self._report_progress(experiment.question)
        begin = perf_counter()
        try:
            with closing(experiment.open()) as other:
                # Compiling happens once per machine and does not count against the budget.
                compiling = max(0.0, perf_counter() - begin - OPENING_S)
                self._start += compiling
                begin += compiling
                if loop.updates:
                    run_until_learning(other)
                left = seconds - (perf_counter() - begin)
                return outcome(experiment, self._compare(loop, other, experiment, left))
        except Exception as error:  # A failing experiment must not end the others.
            return missing(experiment, f"failed ({type(error).__name__}: {error})")

    def _compare(
        self, loop: Loop, other: Loop, experiment: Experiment, seconds: float
    ) -> Comparison | None:
        return compare(
            loop,
            other,
            seconds=max(LEAST_S, seconds),
            by_wall=experiment.cause in BY_WALL,
            speed_before=self._observed_speed() if experiment.lasts else None,
            stops=self._stops,
        )

    def _observed_speed(self) -> float:
        """Own steps per second of the loop during the observation."""
        assert self._seen is not None
        return 1 / self._seen.s_per_step

    def _left(self) -> float:
        return self._budget_s - (perf_counter() - self._start)

    def _report_progress(self, doing: str) -> None:
        if self._stops():
            raise KeyboardInterrupt
        self._progress(doing, min(1.0, 1 - self._left() / self._budget_s))

    def _report(self) -> Report:
        seen = self._seen
        return Report(
            target=self._target.name,
            version=__version__,
            budget_s=self._budget_s,
            took_s=perf_counter() - self._start,
            load=self._load,
            speed=None if seen is None or not seen.windows else self._speed(seen),
            coverage=0.0 if seen is None else seen.coverage,
            phases=() if seen is None else seen.phases,
            findings=rank([*find(self._tried, self._symptoms), *self._hidden]),
            outcomes=(*(found for _, found in self._tried), *self._missing),
            notes=tuple(self._notes),
            history=self._history or (() if seen is None else seen.moments()),
            interrupted=self._interrupted,
            cores=usable_cores(),
        )

    def _speed(self, seen: Observation) -> Speed:
        last = seen.windows[-1]
        turns = [window.turn for window in seen.steady]
        steps = max(1, sum(turn.steps for turn in turns))
        return Speed(
            steps_per_s=1 / seen.wall_s_per_step,
            steps_per_cpu_s=1 / seen.cpu_s_per_step,
            cores_busy=sum(t.cpu_s for t in turns) / sum(t.wall_s for t in turns),
            updates_per_step=sum(turn.updates for turn in turns) / steps,
            num_envs=self._target.num_envs,
            steps=last.steps,
            updates=last.updates,
            episodes=last.episodes,
            machine_fraction=self._target.machine_fraction(seen),
        )


TOO_SHORT = "the budget is used up; increase --budget"


def run_until_learning(loop: Loop) -> None:
    """Run a new loop up to its first update; gives up after a few seconds."""
    end = perf_counter() + LEARNING_WAIT_S
    loop.enter()
    try:
        while not loop.updates and perf_counter() < end:
            loop.iterate()
    finally:
        loop.leave()


def conclusive_s(seen: Observation) -> float:
    """Seconds needed for an interval where single turns take long."""
    usual = float(np.median([window.turn.wall_s for window in seen.steady]))
    # Windows of the requested length mean that turns are short enough for any experiment.
    is_long = usual > 1.5 * WINDOW_S
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
"""Phases that fixing a cause makes cheaper; other causes have no phase of their own."""


def _share(seen: Observation | None, cause: str) -> float:
    """Largest share of the time that fixing a cause could save."""
    if seen is None or cause not in PHASES:
        return 0.0
    return sum(map(seen.own_share, PHASES[cause]))


def examine(
    target: Target,
    *,
    budget_s: float,
    progress: ProgressCallback = lambda doing, done: None,
    stops: Callable[[], bool] = lambda: False,
) -> Report:
    """Examine a target; see `Examination` for the arguments."""
    return Examination(target, budget_s, progress, stops).run()
