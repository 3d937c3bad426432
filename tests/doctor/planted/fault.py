"""A planted fault: a loop that has it, the correct names for it, and the fixed loop."""

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


class HandWrittenLoop(Protocol):
    """A hand-written training loop."""

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


MakeLoop = Callable[[Path], HandWrittenLoop]
"""Builds a hand-written loop that keeps its files in a folder."""


@dataclass(frozen=True, slots=True)
class Fault:
    """One slowdown, or a healthy loop."""

    name: str
    causes: tuple[str, ...]
    """Correct causes; for a healthy loop, causes that may be found anyway."""
    loop: MakeLoop | TrainConfig
    """The loop with the fault: hand-written, or a training of briskrl."""
    fixed: MakeLoop | None = None
    """The hand-written loop without the fault; None if the fix is a setting."""
    around: Callable[[Path], AbstractContextManager[None]] = lambda folder: nullcontext()
    """Context in which the loop has the fault."""

    def examine(self, folder: Path, seconds: float) -> Report:
        """Examine the loop."""
        give_back_memory()
        with self.around(folder):
            if isinstance(self.loop, TrainConfig):
                return examine(TrainTarget(self.loop), budget_s=seconds)
            with closing(self.loop(folder)) as loop:
                return diagnose(
                    loop.iterate,
                    loop.timer,
                    num_envs=loop.num_envs,
                    episodes=lambda: loop.episodes,
                    obs_size=loop.obs_size,
                    seconds=seconds,
                    name=self.name,
                )

    def is_named_by(self, report: Report) -> bool:
        """Whether the first finding is correct."""
        return bool(report.findings) and report.findings[0].cause in self.causes

    def open(self, folder: Path) -> Loop:
        """Build the loop with the fault; the caller enters `around`."""
        if isinstance(self.loop, TrainConfig):
            return TrainTarget(self.loop).open()
        return as_loop(self.loop(folder))

    def open_fixed(self, folder: Path, found: Finding) -> Loop:
        """Build the loop with the advice of a finding applied."""
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
        assert self.fixed is not None, f"{self.name} has no fixed loop"
        return as_loop(self.fixed(folder))


def give_back_memory() -> None:
    """Return freed memory to the system; otherwise a leak would fill it first."""
    gc.collect()
    trim = getattr(ctypes.CDLL(None), "malloc_trim", None) if os.name == "posix" else None
    if trim is not None:
        trim(0)


def as_loop(loop: HandWrittenLoop) -> CallLoop:
    """A hand-written loop with the interface of the doctor."""
    return CallLoop(loop.iterate, loop.timer, loop.num_envs, lambda: loop.episodes)


def _call(switch: Callable[..., object], value: object) -> None:
    switch(value)
