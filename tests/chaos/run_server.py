"""A process that starts training runs on request and kills them, each in a fork of its own.

Importing torch and loading kernels takes seconds; a fork inherits them and starts within a
fraction of one. The server itself never trains with threads, because a fork has only one.

    python -m tests.chaos.run_server CASE [FOLDER]

With a FOLDER it first trains a short run there, so that forks inherit its kernels. Then each line
on standard input is a run folder to start or continue. While it runs, a line "kill" kills it.
Standard output receives lines of JSON: the stages it passes, and how it ended.
"""

from __future__ import annotations

import json
import os
import select
import signal
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

from briskrl.core.errors import ConfigError
from briskrl.training.loop import resume, train
from briskrl.training.recorder import RunRecorder
from briskrl.training.reporter import SilentReporter
from tests.chaos.kill_cases import CASES

FINISHED_BEFORE = 3
"""Exit code of a resume that finds the budget spent."""
KILL = b"kill\n"
WARM_STEPS = 2000
"""Enough for some updates of every case."""


def send(**message: Any) -> None:
    os.write(1, json.dumps(message).encode() + b"\n")


class Stages(SilentReporter):
    """Sends the stages of a run."""

    def __init__(self) -> None:
        self._training = False

    def on_warmup(self, seconds: float) -> None:
        send(stage="warm")

    def on_note(self, text: str) -> None:
        if text.startswith("pretraining"):
            send(stage="pretraining")

    def __call__(self, recorder: RunRecorder) -> None:
        """As a hook: the first iteration is done."""
        if not self._training:
            self._training = True
            send(stage="training")


def run(case: str, run_dir: Path) -> int:
    """Start the run, or continue it if it has begun; returns the exit code."""
    stages = Stages()
    if (run_dir / "config.toml").exists():
        try:
            resume(run_dir, reporter=stages, hooks=[stages])
        except ConfigError as error:
            if "has reached its budget" not in str(error):
                raise
            return FINISHED_BEFORE
    else:
        train(CASES[case](run_dir), reporter=stages, hooks=[stages])
    return 0


def serve(case: str) -> None:
    requests = open(0, "rb", buffering=0)  # noqa: SIM115 - open as long as the process
    while line := requests.readline():
        if line == KILL:
            # It came too late: the run had ended.
            continue
        child = os.fork()
        if child == 0:
            os._exit(_guarded(case, Path(line.decode().strip())))
        descriptor = os.pidfd_open(child)
        ready, _, _ = select.select([requests, descriptor], [], [])
        if descriptor not in ready:
            assert requests.readline() in (KILL, b"")
            signal.pidfd_send_signal(descriptor, signal.SIGKILL)
        _, status = os.waitpid(child, 0)
        os.close(descriptor)
        send(exit=os.waitstatus_to_exitcode(status))


def _guarded(case: str, run_dir: Path) -> int:
    """The exit code of a run; a fork must not return into the server's loop."""
    try:
        return run(case, run_dir)
    except BaseException:
        sys.excepthook(*sys.exc_info())
        return 1
    finally:
        sys.stderr.flush()


def main(case: str, folder: str | None = None) -> None:
    if folder is not None:
        config = CASES[case](Path(folder))
        train(replace(config, steps=WARM_STEPS, threads=1, overlap=False))
    send(stage="ready")
    serve(case)


if __name__ == "__main__":
    main(*sys.argv[1:])
