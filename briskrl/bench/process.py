"""Child processes that work only on request, so that several can be measured in turns.

Protocol: the child prints one line of JSON when it is ready, then answers every line on its
standard input with one line of JSON. Between requests it sleeps. It exits when its standard input
is closed, which also happens if the parent dies.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from types import TracebackType
from typing import Any, Self, TextIO

from briskrl.core.errors import BriskError

EXIT_TIMEOUT_S = 10.0
"""A child that has not exited after this time is killed."""


class ProcessDiedError(BriskError):
    """The process ended unexpectedly; its own error message is on standard error."""


class BenchProcess:
    """A child process; it ends with the context.

    Args:
        command: What to run.
        environment: Its environment variables; those of this process if absent.
        folder: Its working directory; that of this process if absent.
    """

    def __init__(
        self,
        command: Sequence[str],
        *,
        environment: Mapping[str, str] | None = None,
        folder: Path | None = None,
    ) -> None:
        self._name = command[-1] if len(command) == 1 else " ".join(command[:3])
        # A process group of its own: Ctrl-C reaches the parent only, which then closes the child.
        self._process = subprocess.Popen(
            command,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            process_group=0,
            env=environment,
            cwd=folder,
        )
        try:
            self.ready = self._answer()
            """The message that it was ready."""
        except BaseException:
            self.close()
            raise

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    def request(self, line: str) -> dict[str, Any]:
        """Send a request and wait for the answer.

        Raises:
            ProcessDiedError: The process has ended.
        """
        assert self._process.stdin is not None
        try:
            self._process.stdin.write(f"{line}\n")
            self._process.stdin.flush()
        except BrokenPipeError as error:
            raise ProcessDiedError(f"{self._name} has ended.") from error
        return self._answer()

    def _answer(self) -> dict[str, Any]:
        assert self._process.stdout is not None
        answer = self._process.stdout.readline()
        if not answer:
            raise ProcessDiedError(f"{self._name} has ended.")
        found: dict[str, Any] = json.loads(answer)
        return found

    def close(self) -> None:
        """End the process; may be called twice."""
        process = self._process
        assert process.stdin is not None
        assert process.stdout is not None
        with suppress(BrokenPipeError):
            process.stdin.close()
        try:
            process.wait(EXIT_TIMEOUT_S)
        except BaseException:
            process.kill()
            process.wait()
            raise
        finally:
            process.stdout.close()


def open_answers() -> TextIO:
    """In a child: what was standard output; anything else that prints goes to standard error."""
    sys.stdout.flush()
    answers = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)
    return answers
