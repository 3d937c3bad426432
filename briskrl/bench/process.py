"""A process that works only when it is told to, so that several can be measured in turns.

It answers every order, a line on its standard input, with a line of JSON, and says one line when it
is ready. Between orders it sleeps; when the orders end, because they were closed or because whoever
gave them died, it leaves.
"""

from __future__ import annotations

import json
import subprocess
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from briskrl.core.errors import BriskError

LEAVE_S = 10.0
"""Time to leave before it is killed."""


class ProcessDiedError(BriskError):
    """The process ended without being told to; its own words are on standard error."""


class BenchProcess:
    """A process by its command; it ends with the context.

    Args:
        command: What to run.
        environment: Its environment variables; ours if absent.
        folder: Where it works; where we do if absent.
    """

    def __init__(
        self,
        command: Sequence[str],
        *,
        environment: Mapping[str, str] | None = None,
        folder: Path | None = None,
    ) -> None:
        self._name = command[-1] if len(command) == 1 else " ".join(command[:3])
        # A group of its own: Ctrl-C is for the one who gives the orders.
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
            """What it said when it was ready."""
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
        """Let it work and wait; returns its answer.

        Raises:
            ProcessDiedError: It has ended.
        """
        assert self._process.stdin is not None
        try:
            self._process.stdin.write(f"{line}\n")
            self._process.stdin.flush()
        except BrokenPipeError as error:
            raise ProcessDiedError(f"{self._name} takes no orders any more.") from error
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
            process.wait(LEAVE_S)
        except BaseException:
            process.kill()
            process.wait()
            raise
        finally:
            process.stdout.close()
