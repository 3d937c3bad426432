"""The same run from its beginning in a process of its own, a few iterations whenever it is told.

Run as a module it is that process. It reads a number of iterations per line, trains that many, and
answers with what they cost; between orders it sleeps. When the orders end, because they were closed
or because whoever gave them died, it leaves.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from contextlib import suppress
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from time import process_time
from types import TracebackType
from typing import TextIO

from briskrl.train.loop import train
from briskrl.train.resolve import load_config
from briskrl.train.run import Run

LEAVE_S = 10.0
"""Time to leave before it is killed."""


class FreshDiedError(RuntimeError):
    """The process ended without being told to; its own words are on standard error."""


@dataclass(frozen=True, slots=True)
class Turn:
    """What a turn cost, and how far the run has come."""

    cpu_s: float
    iterations: int
    episodes: int
    updates: int


class Fresh:
    """A training process that works only during `turn`, and ends with the context.

    When made it has warmed up and done its first iteration.

    Args:
        config: File with the config of the run.
        folder: The run folder to make.
    """

    def __init__(self, config: Path, folder: Path) -> None:
        command = [sys.executable, "-m", "briskrl.bench.fresh", str(config), str(folder)]
        # A group of its own: Ctrl-C is for the one who gives the orders.
        self._process = subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, process_group=0
        )
        try:
            self.at = self._answer()
            """Where it is, and what its last turn cost; of the first one only where it is."""
        except BaseException:
            self.close()
            raise

    def __enter__(self) -> Fresh:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    def turn(self, iterations: int) -> Turn:
        """Let it train so many iterations and wait; `at` is the answer too.

        Raises:
            FreshDiedError: It has ended.
        """
        assert self._process.stdin is not None
        try:
            self._process.stdin.write(f"{iterations}\n")
            self._process.stdin.flush()
        except BrokenPipeError as error:
            raise FreshDiedError("The process to train beside this one takes no orders.") from error
        self.at = self._answer()
        return self.at

    def _answer(self) -> Turn:
        assert self._process.stdout is not None
        answer = self._process.stdout.readline()
        if not answer:
            raise FreshDiedError("The process to train beside this one has ended.")
        return Turn(**json.loads(answer))

    def close(self) -> None:
        """End the process; may be called twice."""
        process = self._process
        assert process.stdin is not None
        assert process.stdout is not None
        with suppress(BrokenPipeError):
            process.stdin.close()
        try:
            process.wait(LEAVE_S)
        except BaseException:
            process.kill()
            process.wait()
            raise
        finally:
            process.stdout.close()


class Obey:
    """A training hook that stops after every turn until the next one is ordered."""

    def __init__(self, orders: TextIO, answers: TextIO) -> None:
        self._orders = orders
        self._answers = answers
        self._left = 1
        self._begin = process_time()

    def __call__(self, run: Run) -> None:
        """Answer and wait if the turn is over."""
        self._left -= 1
        if self._left:
            return
        cost, clock = process_time() - self._begin, run.session.clock
        turn = Turn(cost, clock.iterations, clock.episodes, clock.updates)
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
