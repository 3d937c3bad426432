"""What a planted fault is: a loop that has it, the names that are right for it, and its cure."""

from __future__ import annotations

import ctypes
import gc
import os
from collections.abc import Callable
from contextlib import AbstractContextManager, closing, nullcontext
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Protocol

import torch

from briskrl.core.phase import PhaseTimer
from briskrl.doctor import diagnose
from briskrl.doctor.custom_loop import CallLoop, ModifiedLoop
from briskrl.doctor.examination import examine
from briskrl.doctor.paired_turns import Loop
from briskrl.doctor.report.records import Finding, Report
from briskrl.doctor.train_target import TrainTarget
from briskrl.training.config import TrainConfig


class Hand(Protocol):
    """A hand-written loop."""

    timer: PhaseTimer
    num_envs: int
    """Transitions per iteration."""
    obs_size: int
    episodes: int

    def iterate(self) -> None:
        """One iteration."""
        ...

    def close(self) -> None:
        """Release what it holds."""
        ...


MakeHand = Callable[[Path], Hand]
"""A hand-written loop that keeps its files in a folder."""


@dataclass(frozen=True, slots=True)
class Fault:
    """One slow-down, or a loop without any."""

    name: str
    causes: tuple[str, ...]
    """Names for it that are right; of a healthy loop, what may be found all the same."""
    loop: MakeHand | TrainConfig
    """The loop that has it: somebody's, or a training of ours."""
    cured: MakeHand | None = None
    """Somebody's loop with the advice taken; None if taking it needs no other code."""
    around: Callable[[Path], AbstractContextManager[None]] = lambda folder: nullcontext()
    """What surrounds the loop while it has the fault."""

    def examine(self, folder: Path, seconds: float) -> Report:
        """The report on the loop."""
        give_back_memory()
        with self.around(folder):
            if isinstance(self.loop, TrainConfig):
                return examine(TrainTarget(self.loop), budget_s=seconds)
            with closing(self.loop(folder)) as hand:
                return diagnose(
                    hand.iterate,
                    hand.timer,
                    num_envs=hand.num_envs,
                    episodes=lambda: hand.episodes,
                    obs_size=hand.obs_size,
                    seconds=seconds,
                    name=self.name,
                )

    def is_named_by(self, report: Report) -> bool:
        """Whether the first finding is right."""
        return bool(report.findings) and report.findings[0].cause in self.causes

    def open(self, folder: Path) -> Loop:
        """The loop with the fault; what surrounds it is the caller's."""
        if isinstance(self.loop, TrainConfig):
            return TrainTarget(self.loop).open()
        return as_loop(self.loop(folder))

    def open_cured(self, folder: Path, found: Finding) -> Loop:
        """The loop with the advice of a finding taken."""
        if isinstance(self.loop, TrainConfig):
            return TrainTarget(self.loop).open_with(found.changes)
        if found.cause == "denormals":
            switch = torch.set_flush_denormal
            loop = as_loop(self.loop(folder))
            return ModifiedLoop(loop, partial(_call, switch, True), partial(_call, switch, False))
        if found.cause == "threads":
            advised = int(found.advice.partition("(")[2].rstrip(")"))
            loop = as_loop(self.loop(folder))
            switch = torch.set_num_threads
            now = torch.get_num_threads()
            return ModifiedLoop(loop, partial(_call, switch, advised), partial(_call, switch, now))
        assert self.cured is not None, f"{self.name} has no cure"
        return as_loop(self.cured(folder))


def give_back_memory() -> None:
    """Return what earlier loops have freed to the system; a leak would fill that first."""
    gc.collect()
    trim = getattr(ctypes.CDLL(None), "malloc_trim", None) if os.name == "posix" else None
    if trim is not None:
        trim(0)


def as_loop(hand: Hand) -> CallLoop:
    """A hand-written loop as the doctor sees it."""
    return CallLoop(hand.iterate, hand.timer, hand.num_envs, lambda: hand.episodes)


def _call(switch: Callable[..., object], value: object) -> None:
    switch(value)
