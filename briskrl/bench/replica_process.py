"""The same run from its beginning in a process of its own, a few iterations whenever it is told.

Run as a module it is that process. It reads a number of iterations per line, trains that many, and
answers with what they cost; between orders it sleeps. When the orders end, because they were closed
or because whoever gave them died, it leaves.
"""

from __future__ import annotations

import json
import os
import sys
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from time import process_time
from typing import TextIO

from briskrl.bench.process import BenchProcess
from briskrl.training.loop import train
from briskrl.training.recorder import RunRecorder
from briskrl.training.resolve import load_config


@dataclass(frozen=True, slots=True)
class Turn:
    """What a turn cost, and how far the run has come."""

    cpu_s: float
    iterations: int
    episodes: int
    updates: int


class ReplicaProcess(BenchProcess):
    """A training process that works only during `turn`, and ends with the context.

    When made it has warmed up and done its first iteration.

    Args:
        config: File with the config of the run.
        folder: The run folder to make.
    """

    def __init__(self, config: Path, folder: Path) -> None:
        super().__init__(
            [sys.executable, "-m", "briskrl.bench.replica_process", str(config), str(folder)]
        )
        self.at = Turn(**self.ready)
        """Where it is, and what its last turn cost; of the first one only where it is."""

    def turn(self, iterations: int) -> Turn:
        """Let it train so many iterations and wait; `at` is the answer too.

        Raises:
            ProcessDiedError: It has ended.
        """
        self.at = Turn(**self.request(str(iterations)))
        return self.at


class Obey:
    """A training hook that stops after every turn until the next one is ordered."""

    def __init__(self, orders: TextIO, answers: TextIO) -> None:
        self._orders = orders
        self._answers = answers
        self._left = 1
        self._begin = process_time()

    def __call__(self, run: RunRecorder) -> None:
        """Answer and wait if the turn is over."""
        self._left -= 1
        if self._left:
            return
        cost, counters = process_time() - self._begin, run.trainer.counters
        turn = Turn(cost, counters.iterations, counters.episodes, counters.updates)
        try:
            print(json.dumps(asdict(turn)), file=self._answers, flush=True)
            order = self._orders.readline()
        except BrokenPipeError:
            order = ""
        if not order:
            # Nobody wants the run: neither its end nor a flush of the pipe matters.
            os._exit(0)
        self._left = int(order)
        self._begin = process_time()


def main(config: str, folder: str) -> None:
    """Train by orders on standard input, with answers on what was standard output."""
    answers = os.fdopen(os.dup(1), "w")
    # Whatever else prints must not be taken for an answer.
    os.dup2(2, 1)
    hooks = [Obey(sys.stdin, answers)]
    train(replace(load_config(config), run_dir=folder), hooks=hooks)


if __name__ == "__main__":
    main(*sys.argv[1:])
