"""`--watch`: the dashboard in a process of its own, for as long as a command trains."""

from __future__ import annotations

import os
import select
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from time import monotonic
from typing import IO, TextIO

from briskrl.core.errors import ConfigError

START_S = 20.0
"""How long the server may take to start on a busy machine."""
END_S = 3.0


@contextmanager
def dashboard(folder: str | None, stream: TextIO, view: str) -> Iterator[None]:
    """Serve the dashboard while entered, and print its address.

    The server reads its standard input, which ends with this process however that ends.

    Args:
        folder: The folder that is shown, which need not exist yet; by default those of all runs.
        stream: Where the address is printed.
        view: The part of the address that says what the page shows first.

    Raises:
        ConfigError: The server did not start.
    """
    process = _start(folder)
    assert process.stdin is not None
    assert process.stdout is not None
    try:
        url = _first_line(process, process.stdout)
        print(f"dashboard: {url}{view}", file=stream, flush=True)
        # Nobody reads what it may print later, and a full pipe must not stop it.
        threading.Thread(target=process.stdout.read, name="dashboard", daemon=True).start()
        yield
    finally:
        process.stdin.close()
        try:
            process.wait(END_S)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()


def _start(folder: str | None) -> subprocess.Popen[bytes]:
    command = [sys.executable, "-P", "-m", "briskrl", "dash", "--beside-run", "--no-browser"]
    return subprocess.Popen(
        command if folder is None else [*command, str(Path(folder))],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        # Ctrl-C is for the training; the server ends after it.
        start_new_session=True,
        env={**os.environ, "PYTHONUNBUFFERED": "1"},
    )


def _first_line(process: subprocess.Popen[bytes], output: IO[bytes]) -> str:
    """The address that the server prints.

    Raises:
        ConfigError: It printed something else, or nothing.
    """
    line, deadline = b"", monotonic() + START_S
    while not line.endswith(b"\n") and monotonic() < deadline:
        readable, _, _ = select.select([output], [], [], max(0.0, deadline - monotonic()))
        found = os.read(output.fileno(), 4096) if readable else b""
        if not found:
            break
        line += found
    text = line.decode(errors="replace").strip()
    if text.startswith("http"):
        return text
    why = text.removeprefix("brisk: ") or f"The dashboard did not start in {START_S:.0f} s."
    raise ConfigError(why)
