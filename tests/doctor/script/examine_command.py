"""Run `brisk doctor -- COMMAND` as a user does."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

from tests.cli.conftest import environment

Done = subprocess.CompletedProcess[str]


def examine(
    *command: object,
    cwd: Path,
    budget: float = 8,
    options: tuple[str, ...] = (),
    **variables: str,
) -> tuple[dict[str, Any], Done]:
    """The report of a command, and the process of the doctor."""
    words = [sys.executable, "-m", "briskrl", "doctor", "--json", "--budget", str(budget)]
    done = subprocess.run(
        [*words, *options, "--", *map(str, command)],
        cwd=cwd,
        env={**environment(), **variables},
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    return json.loads(done.stdout) if done.stdout else {}, done
