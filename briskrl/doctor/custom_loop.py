"""Anybody's loop as the subject of an examination: a function, a timer, and three lines."""

from __future__ import annotations

import gc
import io
import sys
from collections.abc import Callable, Iterator, Mapping
from typing import Any

from briskrl.core.cpu import usable_cores
from briskrl.core.errors import ConfigError
from briskrl.core.phase import Phase, PhaseTimer
from briskrl.doctor.examination import Teller, examine
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
    tell: Teller = lambda doing, done: None,
) -> Report:
    """Examine a loop of your own.

    Put `with timer["act"]:` and so on around the parts of the loop (act, env, store, sample,
    update, eval, log, save, wait); what is in none of them is counted as other.

    Args:
        iterate: Does one iteration: acts, steps, stores, and whatever learning is due.
        timer: Where it counts its phases.
        num_envs: Transitions per iteration.
        episodes: How many episodes have ended so far.
        variants: Loops with something changed, by what was changed; each is made once and compared
            in alternating turns. A variant counts its phases where it likes.
        obs_size: Numbers per observation, to know what storing them should cost.
        seconds: How long to look.
        name: What the report calls the loop.
        tell: Told what goes on.
    """
    if num_envs < 1 or obs_size < 1 or not seconds > 0:
        raise ConfigError("num_envs, obs_size and seconds must all be above 0.")
    subject = CodeSubject(iterate, timer, num_envs, episodes, dict(variants or {}), obs_size, name)
    return examine(subject, budget_s=seconds, tell=tell)


class CallLoop:
    """A function that iterates, as a loop."""

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
        """Episodes so far, if somebody counts them."""
        return None if self._episodes is None else self._episodes()

    def iterate(self) -> None:
        """Call the function; updates are counted by how often that phase is entered."""
        updating = self.timer[Phase.UPDATE]
        before = updating.count
        self._iterate()
        self.updates += updating.count - before
        self.steps += self._num_envs

    def enter(self) -> None:
        """The function's surroundings stay as they are."""

    def leave(self) -> None:
        """Nothing was changed."""

    def close(self) -> None:
        """The function belongs to the caller."""


class Treated:
    """The same loop with its surroundings changed for as long as a turn lasts."""

    def __init__(self, loop: Loop, enter: Callable[[], None], leave: Callable[[], None]) -> None:
        self._loop = loop
        self.enter = enter
        self.leave = leave
        self.iterate = loop.iterate

    @property
    def timer(self) -> PhaseTimer:
        """The loop's."""
        return self._loop.timer

    @property
    def steps(self) -> int:
        """The loop's."""
        return self._loop.steps

    @property
    def updates(self) -> int:
        """The loop's."""
        return self._loop.updates

    @property
    def episodes(self) -> int | None:
        """The loop's."""
        return self._loop.episodes

    def close(self) -> None:
        """The loop goes on."""


class CodeSubject:
    """A loop of somebody's, and what can be changed around it."""

    def __init__(
        self,
        iterate: Iteration,
        timer: PhaseTimer,
        num_envs: int,
        episodes: Callable[[], int] | None,
        variants: dict[str, Callable[[], Iteration]],
        obs_size: int,
        name: str,
    ) -> None:
        self.name = name
        self.num_envs = num_envs
        self.obs_size = obs_size
        self._loop = CallLoop(iterate, timer, num_envs, episodes)
        self._variants = variants

    def open(self) -> Loop:
        """The one loop there is."""
        return self._loop

    def open_with(self, changes: Mapping[str, Any]) -> Loop | None:
        """Nobody here can change somebody's code."""
        return None

    def notes(self) -> list[str]:
        """Torch's threads, which nobody sees in the code."""
        torch = sys.modules.get("torch")
        if torch is None:
            return []
        return [f"torch uses {torch.get_num_threads()} threads on {usable_cores()} cores"]

    def machine_fraction(self, seen: Observation) -> float | None:
        """Nobody says how much arithmetic the loop does."""
        return None

    def experiments(self, seen: Observation) -> list[Experiment | Skipped]:
        """Variants first, then the surroundings."""
        return [*self._of_variants(), *self._of_torch(), *self._of_python(seen)]

    def _of_variants(self) -> Iterator[Experiment]:
        for name, make in self._variants.items():
            yield Experiment(
                name=name,
                question=f"Would it be faster with {name}?",
                cause=name,
                change=name,
                open=lambda make=make: CallLoop(make(), PhaseTimer(), self.num_envs, None),  # type: ignore[misc]
                alters="that is for you to say",
            )

    def _of_torch(self) -> Iterator[Experiment | Skipped]:
        torch = sys.modules.get("torch")
        if torch is None:
            yield Skipped("torch", "Do torch's settings matter?", "torch is not imported")
            return
        now, cores = torch.get_num_threads(), usable_cores()
        for count in sorted({1, cores} - {now}):
            yield Experiment(
                name=f"torch threads {count}",
                question=f"Would {count} instead of {now} threads of torch be faster?",
                cause="threads",
                change=f"torch.set_num_threads({count})",
                open=_with(self._loop, torch.set_num_threads, count, now),
                context=f"{now} threads on {cores} cores",
                worth=WORTH_A_CORE if count > now else WORTH,
            )
        yield Experiment(
            name="denormals",
            question="Are tiny numbers computed slowly?",
            cause="denormals",
            change="torch.set_flush_denormal(True)",
            open=_with(self._loop, torch.set_flush_denormal, True, False),
            # What decays and was flushed once stays zero.
            lasts=True,
        )

    def _of_python(self, seen: Observation) -> Iterator[Experiment]:
        console = _Console()
        cause = record_cause(seen)[0]
        yield Experiment(
            name="silent console",
            question="Does printing cost anything?",
            cause=cause if cause.startswith("write") else "console",
            change="print less often",
            open=lambda: Treated(self._loop, console.hush, console.restore),
            # Loggers and files of the loop's own write on.
            partial=True,
        )
        if gc.isenabled():
            yield Experiment(
                name="garbage collector off",
                question="Does the garbage collector cost anything?",
                cause="garbage",
                change="gc.freeze() after set-up, or fewer new objects per step",
                open=lambda: Treated(self._loop, gc.disable, gc.enable),
            )


def _with(loop: Loop, switch: Callable[[Any], Any], on: Any, off: Any) -> Callable[[], Loop]:
    """A loop for whose turns a setting of the process is another one."""

    def enter() -> None:
        switch(on)

    def leave() -> None:
        switch(off)

    return lambda: Treated(loop, enter, leave)


class _Console:
    """Standard output and error, put aside for a turn."""

    def hush(self) -> None:
        """Take whatever is printed and drop it."""
        self._before = sys.stdout, sys.stderr
        sys.stdout = sys.stderr = _Nowhere()

    def restore(self) -> None:
        """Print again."""
        sys.stdout, sys.stderr = self._before


class _Nowhere(io.TextIOBase):
    """A console that nobody reads."""

    def write(self, text: str) -> int:
        """Drop the text."""
        return len(text)
