"""A second copy of a training run, from its start, in a child process.

Run as a module this file is that child: it reads a number of iterations per line, trains that many
and answers with their cost.
"""

from __future__ import annotations

import json
import os
import sys
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from time import process_time
from typing import TextIO

from briskrl.bench.process import BenchProcess, open_answers
from briskrl.training.loop import train
from briskrl.training.recorder import RunRecorder
from briskrl.training.resolve import load_config


@dataclass(frozen=True, slots=True)
class Progress:
    """Cost of the latest request, and counters of the replica."""

    cpu_s: float
    iterations: int
    episodes: int
    updates: int


class ReplicaProcess(BenchProcess):
    """A replica that trains only during `train`; ends with the context.

    After construction it has warmed up and done its first iteration.

    Args:
        config: Config file of the run.
        folder: The run folder to create.
    """

    def __init__(self, config: Path, folder: Path) -> None:
        # -P: nothing may be imported from the current folder by accident.
        command = [sys.executable, "-P", "-m", "briskrl.bench.replica_process"]
        super().__init__([*command, str(config), str(folder)])
        self.progress = Progress(**self.ready)
        """The latest answer; the cost in the first one includes the start."""

    def train(self, iterations: int) -> Progress:
        """Train a number of iterations and wait; also sets `progress`.

        Raises:
            ProcessDiedError: The process has ended.
        """
        self.progress = Progress(**self.request(str(iterations)))
        return self.progress


class RequestHook:
    """A training hook that pauses the run until more iterations are requested."""

    def __init__(self, requests: TextIO, answers: TextIO) -> None:
        self._requests = requests
        self._answers = answers
        self._left = 1
        self._begin = process_time()

    def __call__(self, run: RunRecorder) -> None:
        """Answer and wait if the requested iterations are done."""
        self._left -= 1
        if self._left:
            return
        cost, counters = process_time() - self._begin, run.trainer.counters
        progress = Progress(cost, counters.iterations, counters.episodes, counters.updates)
        try:
            print(json.dumps(asdict(progress)), file=self._answers, flush=True)
            request = self._requests.readline()
        except BrokenPipeError:
            request = ""
        if not request:
            # The parent is gone; neither the end of the run nor a flush of the pipe matters.
            os._exit(0)
        self._left = int(request)
        self._begin = process_time()


def main(config: str, folder: str) -> None:
    """Train on request."""
    hooks = [RequestHook(sys.stdin, open_answers())]
    train(replace(load_config(config), run_dir=folder), hooks=hooks)


if __name__ == "__main__":
    main(*sys.argv[1:])
