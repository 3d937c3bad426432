"""Examine a script: run it, observe it, change settings in turns, report findings."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from time import perf_counter

from briskrl import __version__
from briskrl.core.cpu import usable_cores
from briskrl.core.errors import BriskError
from briskrl.doctor.examination import ProgressCallback
from briskrl.doctor.report.records import Finding, Gain, Outcome, Report, ScriptFacts
from briskrl.doctor.script.command import Command
from briskrl.doctor.script.costs import Costs
from briskrl.doctor.script.counters import counters, unseen
from briskrl.doctor.script.experiments import (
    DISTURBED,
    ScriptExperiment,
    is_disturbed,
    planned_experiments,
    result_of,
    to_outcome,
)
from briskrl.doctor.script.observed import Observed, observe
from briskrl.doctor.script.patterns.age_patterns import slow_start
from briskrl.doctor.script.patterns.find import combine, find_patterns
from briskrl.doctor.script.patterns.kept_memory import memory_growth, slope_of
from briskrl.doctor.script.patterns.suspicions import suspicions
from briskrl.doctor.script.phases import PhaseMap, Rule, is_own
from briskrl.doctor.script.process import ScriptProcess
from briskrl.doctor.script.recording import sum_samples
from briskrl.doctor.script.source import Sources, called_name
from briskrl.doctor.script.turns import Alternation
from briskrl.doctor.script.whole_runs import Trial, WholeRuns

OBSERVE_SHARE, LEAST_OBSERVED_S = 0.3, 4.0
"""Share of the budget for observation after the first step, and its shortest length."""
RESERVE_S = 2.5
"""Seconds of the budget that are kept for ending the script and writing the report."""
TRYING = 0.5
"""Share of the budget for runs of the whole script, if any were asked for."""
TRACING_S, LEAST_TRACING_S, TRACED = 5.0, 0.7, 0.25
"""Longest and shortest time for tracing memory, and its largest share of the time that is left."""
NARROW = 1.5
"""Largest ratio of the ends of an interval for the cost of watching."""
EXPERIMENT_S = (2.0, 15.0)
"""Shortest and longest time for one experiment."""


@dataclass(slots=True)
class ScriptExamination:
    """The examination of one script within one budget."""

    command: Command
    budget_s: float
    rules: Sequence[Rule] = ()
    stdout: int | None = None
    progress: ProgressCallback = lambda doing, done: None
    stops: Callable[[], bool] = lambda: False
    trials: Sequence[Trial] = ()
    """Other arguments to try in runs of the whole script."""
    reserve: float = 0.0
    """Share of the budget that the caller needs afterwards."""
    seen: Observed | None = None
    """What was observed, after `run`."""
    _start: float = field(default_factory=perf_counter)
    _sources: Sources = field(default_factory=Sources)
    _interrupted: bool = False
    _outcomes: list[Outcome] = field(default_factory=list)
    _findings: list[Finding] = field(default_factory=list)
    _notes: list[str] = field(default_factory=list)
    _watching: Gain | None = None

    def run(self) -> Report:
        """Run the script and examine it; Ctrl-C and `stops` end both early.

        Raises:
            BriskError: The script ran without the watcher, or failed before anything was seen.
        """
        process = ScriptProcess(self.command, stdout=self.stdout)
        try:
            try:
                self._examine(process)
            except KeyboardInterrupt:
                self._interrupted = True
            self._report_progress("ending the script", raises=False)
            process.stop()
            self._try_whole_runs()
            return self._report(process)
        finally:
            process.close()

    def _try_whole_runs(self) -> None:
        if not self.trials or self._interrupted:
            return
        self._report_progress("running the script with other arguments", raises=False)
        seconds = TRYING * self.budget_s * (1 - self.reserve)
        runs = WholeRuns(self.command, self.stdout, self.stops)
        self._outcomes += runs.compare(self.trials, seconds)
        self._interrupted = self.stops()

    def _examine(self, process: ScriptProcess) -> None:
        self._report_progress("waiting for the first environment step")
        if not self._wait(process, lambda: bool(process.recording.started_steps), self._left()):
            self._note_start(process)
            return
        self._report_progress("observing")
        began, seconds = perf_counter(), max(LEAST_OBSERVED_S, OBSERVE_SHARE * self.budget_s)
        self._wait(process, lambda: perf_counter() - began > seconds, self._left())
        self._trace_memory(process)
        self._experiment(process)
        if not process.recording.allocated:
            self._trace_memory(process)
        self._report_progress("observing its age")
        self._wait(process, lambda: False, self._left())

    def _note_start(self, process: ScriptProcess) -> None:
        """Note what the script was doing instead of taking steps."""
        if process.exit_code is not None or not process.is_watched:
            return
        with process.lock:
            recording = process.recording
            samples = sum_samples(recording.windows[-5:])
            stacks = [recording.stacks[key] for key, _ in samples.most_common(1)]
        frames = [frame for stack in stacks for frame in stack.loop_frames if is_own(frame)]
        where = (
            f"{frames[0].code.file}:{frames[0].place.line}" if frames and frames[0].place else ""
        )
        self._notes.append(
            "no environment step within the budget" + (f"; the script was at {where}" * bool(where))
        )

    def _wait(self, process: ScriptProcess, is_done: Callable[[], bool], seconds: float) -> bool:
        """Let the script run until something is true; false if it ended or time is over."""
        end = perf_counter() + seconds
        while perf_counter() < end:
            if process.wait(min(0.1, max(0.0, end - perf_counter()))):
                return is_done()
            if self.stops():
                raise KeyboardInterrupt
            if is_done():
                return True
        return False

    def _experiment(self, process: ScriptProcess) -> None:
        seen = self._observe(process)
        planned = planned_experiments(seen)
        for position, item in enumerate(planned):
            left = self._left() * 0.8
            if process.exit_code is not None or left < EXPERIMENT_S[0]:
                why = "the script had ended" if process.exit_code is not None else TOO_SHORT
                missed = [item for item in planned[position:] if item.change]
                self._outcomes += [to_outcome(item, None, why) for item in missed]
                return
            fair = left / (len(planned) - position)
            self._report_progress(item.question)
            turns = Alternation(
                process,
                item.switch,
                item.value,
                by_wall=item.by_wall,
                lasting=item.lasting,
                stops=self.stops,
            )
            answer = turns.run(min(EXPERIMENT_S[1], max(EXPERIMENT_S[0], fair)))
            if self.stops():
                raise KeyboardInterrupt
            if item.switch == "unwatched":
                self._watching = answer.gain if _is_narrow(answer.gain) else None
                continue
            found = to_outcome(item, answer, answer.why)
            if found.gain is not None and is_disturbed(item, seen):
                found = replace(found, verdict="unclear", answer=f"unclear: {DISTURBED}")
            self._outcomes.append(found)
            self._findings += self._with_places(item, result_of(item, found, seen), seen)

    def _with_places(
        self, item: ScriptExperiment, found: Sequence[Finding], seen: Observed
    ) -> list[Finding]:
        """Findings of an experiment with the line that decides it, if there is one."""
        costs = Costs(seen, self._sources)
        lines = item.call and costs.asking(lambda call: called_name(call).endswith(item.call))
        if not lines:
            return list(found)
        return [replace(one, location=lines.location, source=costs.text(lines)) for one in found]

    def _trace_memory(self, process: ScriptProcess) -> None:
        """Find the lines that allocate what makes memory grow, if it grows."""
        with process.lock:
            slope = slope_of(process.recording.learning)
        seconds = min(TRACING_S, TRACED * self._left())
        if slope is None or seconds < LEAST_TRACING_S or process.exit_code is not None:
            return
        self._report_progress("looking for memory that grows")
        if process.switched("allocations", None, seconds) is None:
            return
        self._wait(process, lambda: False, seconds)
        # Adding up what was allocated takes a while in the script.
        process.switched("", None, seconds)
        process.end_turns()

    def _observe(self, process: ScriptProcess) -> Observed:
        with process.lock:
            return observe(process.recording, PhaseMap(self._sources, self.rules))

    def _left(self) -> float:
        share = (1 - self.reserve) * (1 - TRYING * bool(self.trials))
        return self.budget_s * share - RESERVE_S - (perf_counter() - self._start)

    def _report_progress(self, doing: str, *, raises: bool = True) -> None:
        if raises and self.stops():
            raise KeyboardInterrupt
        done = (perf_counter() - self._start) / self.budget_s
        self.progress(doing, min(1.0, done))

    def _report(self, process: ScriptProcess) -> Report:
        if not process.is_watched:
            raise BriskError(_why_unwatched(process))
        seen = self.seen = self._observe(process)
        costs = Costs(seen, self._sources)
        start = slow_start(seen.windows)
        return Report(
            target=" ".join(self.command.argv[self.command.first_flag - 1 :]),
            version=__version__,
            budget_s=self.budget_s,
            took_s=perf_counter() - self._start,
            load=os.getloadavg()[0],
            speed=seen.speed(),
            coverage=seen.coverage,
            phases=seen.phases(),
            findings=combine(find_patterns(costs), self._findings),
            outcomes=tuple(self._outcomes),
            notes=(*self._notes, *([start] if start else [])),
            history=seen.moments(),
            interrupted=self._interrupted,
            cores=usable_cores(),
            script=self._facts(process, costs),
        )

    def _facts(self, process: ScriptProcess, costs: Costs) -> ScriptFacts:
        recording, seen = process.recording, costs.seen
        hello = recording.hello
        assert hello is not None
        first = next((w for w in recording.windows if w.end.steps), None)
        return ScriptFacts(
            argv=self.command.argv,
            python=hello["python"],
            exit_code=process.exit_code,
            stopped=process.stopped,
            counters=tuple(
                counters(
                    seen,
                    threads=process.threads,
                    workers=process.workers,
                    growth=memory_growth(costs),
                )
            ),
            warnings=tuple(suspicions(costs)),
            unseen=tuple(unseen(seen, recording, workers=process.workers)),
            start_s=None if first is None else first.end.wall_s - float(hello["t"]),
            watching=self._watching,
            counting=seen.counting,
        )


TOO_SHORT = "the budget is used up; increase --budget"


def _is_narrow(gain: Gain | None) -> bool:
    """Whether an interval says anything; with little time on the core it may span everything."""
    return gain is not None and gain.high < NARROW * gain.low


def _why_unwatched(process: ScriptProcess) -> str:
    if process.failure:
        return f"The watcher could not start in the script: {process.failure}."
    code = process.exit_code
    end = "was ended by the doctor" if process.stopped else f"ended with exit code {code}"
    return (
        f"The command {end} and no Python of it loaded the watcher. Name the script itself: "
        "brisk doctor -- python train.py"
    )
