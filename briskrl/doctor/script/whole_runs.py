"""Short runs of a whole script with other arguments, in turns with the script as it is."""

from __future__ import annotations

import re
import shlex
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing
from dataclasses import dataclass, field
from itertools import pairwise
from math import log
from time import perf_counter

from briskrl.bench.compare import estimate
from briskrl.core.errors import ConfigError
from briskrl.doctor.experiments.base import verdict_of
from briskrl.doctor.report.records import Gain, Outcome
from briskrl.doctor.script.command import Command
from briskrl.doctor.script.process import ScriptProcess

ROUNDS, SEGMENTS = 2, 4
"""Runs of every variant, and parts of a run that are compared with those of another."""
LEAST_RUN_S = 3.0
VARIABLE = re.compile(r"^[A-Za-z_][A-Za-z0-9_]*$")


@dataclass(frozen=True, slots=True)
class Trial:
    """Other arguments or environment variables."""

    text: str
    flags: tuple[str, ...] = ()
    variables: dict[str, str] = field(default_factory=dict)


def parse_trials(text: str) -> list[Trial]:
    """Trials from `--num-envs 32,64` or `OMP_NUM_THREADS=1,2`.

    Raises:
        ConfigError: The text has another form.
    """
    words = shlex.split(text)
    if len(words) == 2 and words[0].startswith("-"):
        return [Trial(f"{words[0]} {value}", (words[0], value)) for value in words[1].split(",")]
    name, equals, values = text.partition("=")
    if equals and VARIABLE.match(name) and values:
        return [Trial(f"{name}={value}", (), {name: value}) for value in values.split(",")]
    raise ConfigError(
        f"--try {text!r}: give a flag of the script with values (--num-envs 32,64,256) or an "
        "environment variable (OMP_NUM_THREADS=1,2)."
    )


class WholeRuns:
    """Runs a script again and again.

    Args:
        command: The script as it is.
        stdout: File descriptor for its output.
        stops: True ends everything.
    """

    def __init__(
        self, command: Command, stdout: int | None, stops: Callable[[], bool] = lambda: False
    ) -> None:
        self._command = command
        self._stdout = stdout
        self._stops = stops

    def compare(self, trials: Sequence[Trial], seconds: float) -> Iterator[Outcome]:
        """The outcome of every trial.

        Args:
            trials: What to change.
            seconds: Time for all runs.
        """
        variants = [Trial(""), *trials]
        each = max(LEAST_RUN_S, seconds / (ROUNDS * len(variants)))
        rates: list[list[float]] = [[] for _ in variants]
        for number in range(ROUNDS):
            order = range(len(variants))
            for at in order if number % 2 == 0 else reversed(order):
                if not self._stops():
                    rates[at] += self._run(variants[at], each)
        for trial, found in zip(trials, rates[1:], strict=True):
            yield _outcome(trial, rates[0], found)

    def _run(self, trial: Trial, seconds: float) -> list[float]:
        """Transitions per second of the script's own time, in parts of a run."""
        command = self._command.with_flags(trial.flags)
        begin = perf_counter()
        with closing(
            ScriptProcess(command, stdout=self._stdout, variables=trial.variables)
        ) as process:
            while perf_counter() - begin < seconds and not self._stops():
                if process.wait(0.1):
                    break
            process.stop()
            windows = [window for window in process.recording.learning if window.steps]
        ends = [len(windows) * at // SEGMENTS for at in range(SEGMENTS + 1)]
        parts = [windows[a:b] for a, b in pairwise(ends) if b > a]
        return [sum(w.steps for w in part) / sum(w.own_s for w in part) for part in parts]


def _outcome(trial: Trial, before: Sequence[float], after: Sequence[float]) -> Outcome:
    logs = [log(new / old) for old, new in zip(before, after, strict=False)]
    found = estimate(logs)
    gain = Gain(found.ratio, found.low, found.high) if found.pairs > 2 else None
    missing = ("missing", "no steps were counted in the time of a run; increase --budget")
    verdict, answer = missing if gain is None else verdict_of(gain)
    return Outcome(
        name=trial.text,
        question=f"Would {trial.text} be faster?",
        change=trial.text,
        verdict=verdict,  # type: ignore[arg-type]
        answer=answer,
        alters_learning="depends on what it changes",
        gain=gain,
        pairs=found.pairs,
    )
