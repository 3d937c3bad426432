"""Examine any training loop: a function that iterates, and a timer of its phases."""

from __future__ import annotations

import gc
import io
import sys
from collections.abc import Callable, Iterator, Mapping
from typing import Any

from briskrl.core.cpu import usable_cores
from briskrl.core.errors import ConfigError
from briskrl.core.phase import Phase, PhaseTimer
from briskrl.doctor.examination import ProgressCallback, examine
from briskrl.doctor.experiments.base import WORTH, WORTH_A_CORE, Experiment, Skipped
from briskrl.doctor.observation import Observation
from briskrl.doctor.paired_turns import Loop
from briskrl.doctor.report.records import Report
from briskrl.doctor.symptoms import record_cause

Iteration = Callable[[], object]


def diagnose(
    iterate: Iteration,
    timer: PhaseTimer,
    *,
    num_envs: int = 1,
    episodes: Callable[[], int] | None = None,
    variants: Mapping[str, Callable[[], Iteration]] | None = None,
    obs_size: int = 16,
    seconds: float = 60.0,
    name: str = "your loop",
    progress: ProgressCallback = lambda doing, done: None,
) -> Report:
    """Examine a loop of your own.

    Put `with timer["act"]:` and so on around the parts of the loop (act, env, store, sample,
    update, eval, log, save, wait); the rest is counted as other.

    Args:
        iterate: Runs one iteration: act, step, store, and the updates that are due.
        timer: The timer of its phases.
        num_envs: Transitions per iteration.
        episodes: Returns the number of finished episodes so far.
        variants: Functions that build a changed loop, by the name of the change. Each is built once
            and compared with `iterate` in alternating turns; it need not use `timer`.
        obs_size: Numbers per observation, to estimate what storing them should cost.
        seconds: Time budget.
        name: Name of the loop in the report.
        progress: Called with the current activity and the share of the budget that is used.
    """
    if num_envs < 1 or obs_size < 1 or not seconds > 0:
        raise ConfigError("num_envs, obs_size and seconds must all be above 0.")
    loop = CallLoop(iterate, timer, num_envs, episodes)
    target = CustomLoopTarget(loop, dict(variants or {}), num_envs, obs_size, name)
    return examine(target, budget_s=seconds, progress=progress)


class CallLoop:
    """A loop around a function that runs one iteration."""

    def __init__(
        self,
        iterate: Iteration,
        timer: PhaseTimer,
        num_envs: int,
        episodes: Callable[[], int] | None,
    ) -> None:
        self.timer = timer
        self.steps = 0
        self.updates = 0
        self._iterate = iterate
        self._num_envs = num_envs
        self._episodes = episodes

    @property
    def episodes(self) -> int | None:
        """Episodes so far; None if they are not counted."""
        return None if self._episodes is None else self._episodes()

    def iterate(self) -> None:
        """Call the function; every entry of the update phase counts as one update."""
        updating = self.timer[Phase.UPDATE]
        before = updating.count
        self._iterate()
        self.updates += updating.count - before
        self.steps += self._num_envs

    def enter(self) -> None:
        """Nothing to set."""

    def leave(self) -> None:
        """Nothing to restore."""

    def close(self) -> None:
        """Nothing to release: the function belongs to the caller."""


class ModifiedLoop:
    """The same loop with a process-wide setting changed during its turns."""

    def __init__(self, loop: Loop, enter: Callable[[], None], leave: Callable[[], None]) -> None:
        self._loop = loop
        self.enter = enter
        self.leave = leave
        self.iterate = loop.iterate

    @property
    def timer(self) -> PhaseTimer:
        """Timer of the loop."""
        return self._loop.timer

    @property
    def steps(self) -> int:
        """Transitions of the loop."""
        return self._loop.steps

    @property
    def updates(self) -> int:
        """Updates of the loop."""
        return self._loop.updates

    @property
    def episodes(self) -> int | None:
        """Episodes of the loop."""
        return self._loop.episodes

    def close(self) -> None:
        """Nothing to release: the loop is still in use."""


class CustomLoopTarget:
    """A custom loop, and the settings that can be changed from outside."""

    def __init__(
        self,
        loop: CallLoop,
        variants: dict[str, Callable[[], Iteration]],
        num_envs: int,
        obs_size: int,
        name: str,
    ) -> None:
        self.name = name
        self.num_envs = num_envs
        self.obs_size = obs_size
        self._loop = loop
        self._variants = variants

    def open(self) -> Loop:
        """The loop; there is only one."""
        return self._loop

    def open_with(self, changes: Mapping[str, Any]) -> Loop | None:
        """None: the code of a custom loop cannot be changed here."""
        return None

    def notes(self) -> list[str]:
        """The number of torch threads, which is not visible in the code."""
        torch = sys.modules.get("torch")
        if torch is None:
            return []
        return [f"torch uses {torch.get_num_threads()} threads on {usable_cores()} cores"]

    def machine_fraction(self, seen: Observation) -> float | None:
        """None: the amount of arithmetic is unknown."""
        return None

    def experiments(self, seen: Observation) -> list[Experiment | Skipped]:
        """Variants first, then settings of torch and Python."""
        return [*self._variant_tests(), *self._torch_tests(), *self._python_tests(seen)]

    def _variant_tests(self) -> Iterator[Experiment]:
        for name, make in self._variants.items():
            yield Experiment(
                name=name,
                question=f"Would it be faster with {name}?",
                cause=name,
                change=name,
                open=lambda make=make: CallLoop(make(), PhaseTimer(), self.num_envs, None),  # type: ignore[misc]
                alters="depends on the change",
            )

    def _torch_tests(self) -> Iterator[Experiment | Skipped]:
        torch = sys.modules.get("torch")
        if torch is None:
            yield Skipped("torch", "Do torch's settings matter?", "torch is not imported")
            return
        now, cores = torch.get_num_threads(), usable_cores()
        for count in sorted({1, cores} - {now}):
            yield Experiment(
                name=f"torch threads {count}",
                question=f"Would {count} torch threads be faster than {now}?",
                cause="threads",
                change=f"torch.set_num_threads({count})",
                open=_with(self._loop, torch.set_num_threads, count, now),
                context=f"{now} threads on {cores} cores",
                worth=WORTH_A_CORE if count > now else WORTH,
            )
        yield Experiment(
            name="denormals",
            question="Are denormal numbers slowing it down?",
            cause="denormals",
            change="torch.set_flush_denormal(True)",
            open=_with(self._loop, torch.set_flush_denormal, True, False),
            # Decaying values that were flushed once stay zero.
            lasts=True,
        )

    def _python_tests(self, seen: Observation) -> Iterator[Experiment]:
        console = _Console()
        cause = record_cause(seen)[0]
        yield Experiment(
            name="silent console",
            question="Does printing take time?",
            cause=cause if cause.startswith("write") else "console",
            change="print less often",
            open=lambda: ModifiedLoop(self._loop, console.silence, console.restore),
            # Loggers and files of the loop still write.
            partial=True,
        )
        if gc.isenabled():
            yield Experiment(
                name="garbage collector off",
                question="Does garbage collection take time?",
                cause="garbage",
                change="gc.freeze() after setup, or fewer new objects per step",
                open=lambda: ModifiedLoop(self._loop, gc.disable, gc.enable),
            )


def _with(loop: Loop, switch: Callable[[Any], Any], on: Any, off: Any) -> Callable[[], Loop]:
    """Builds the loop with a process-wide setting switched during its turns."""

    def enter() -> None:
        switch(on)

    def leave() -> None:
        switch(off)

    return lambda: ModifiedLoop(loop, enter, leave)


class _Console:
    """Standard output and error, silenced during a turn."""

    def silence(self) -> None:
        """Drop everything that is printed."""
        self._before = sys.stdout, sys.stderr
        sys.stdout = sys.stderr = _NullStream()

    def restore(self) -> None:
        """Print as before."""
        sys.stdout, sys.stderr = self._before


class _NullStream(io.TextIOBase):
    """A text stream that drops everything."""

    def write(self, text: str) -> int:
        """Drop the text."""
        return len(text)
