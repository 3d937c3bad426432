"""Sample this process with py-spy, if it is installed and permitted."""

from __future__ import annotations

import ctypes
import json
import os
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from math import ceil
from pathlib import Path
from tempfile import TemporaryFile
from time import perf_counter
from typing import Any

from briskrl.core.state_checks import MALFORMED

RATE = 200
"""Samples per second."""
GRACE_S = 30.0
"""Seconds that py-spy may take to start and to write."""
INSTALL = "py-spy is not installed: pip install 'briskrl[doctor]'"
SET_PTRACER = 0x59616D61
"""`PR_SET_PTRACER` of Linux."""


@dataclass(slots=True)
class Frame:
    """A sampled function."""

    file: str
    line: int
    name: str
    own_s: float = 0.0
    """Seconds as the innermost function."""
    total_s: float = 0.0
    """Seconds anywhere on the stack."""


def sample_with_py_spy(work: Callable[[], object], seconds: float, path: Path) -> list[Frame] | str:
    """Repeat `work` while py-spy samples it; returns the functions, or an error message.

    Args:
        work: Called repeatedly.
        seconds: Sampling time, rounded up to whole seconds.
        path: Speedscope file to write.
    """
    program = find_py_spy()
    if program is None:
        return INSTALL
    command = [program, "record", "--pid", str(os.getpid()), "--output", str(path), "--function"]
    command += ["--duration", str(max(1, ceil(seconds))), "--rate", str(RATE)]
    command += ["--format", "speedscope"]
    with TemporaryFile() as errors:
        try:
            spy = subprocess.Popen(
                command, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=errors
            )
        except OSError as error:
            return f"it cannot be started: {error}"
        try:
            _allow_tracing(spy.pid)
            end = perf_counter() + seconds + GRACE_S
            while spy.poll() is None and perf_counter() < end:
                work()
            ended = spy.poll() is not None
        finally:
            if spy.poll() is None:
                spy.kill()
            code = spy.wait()
        if not ended:
            return "nothing; it did not finish in time"
        if code != 0:
            errors.seek(0)
            return errors.read().decode(errors="replace") or f"nothing; it exited with code {code}"
    try:
        return list(frames(json.loads(path.read_text())))
    except (OSError, *MALFORMED) as error:
        return f"a profile that cannot be read: {error}"


def find_py_spy() -> str | None:
    """py-spy beside this Python or on the path; None if there is none."""
    beside = shutil.which("py-spy", path=str(Path(sys.executable).parent))
    return beside or shutil.which("py-spy")


def frames(recorded: dict[str, Any]) -> Iterator[Frame]:
    """Functions with their seconds over all threads, from a speedscope file."""
    found = [
        Frame(frame.get("file") or "", frame.get("line") or 0, frame["name"])
        for frame in recorded["shared"]["frames"]
    ]
    for thread in recorded["profiles"]:
        for stack, weight in zip(thread["samples"], thread["weights"], strict=True):
            for index in set(stack):
                found[index].total_s += weight
            if stack:
                found[stack[-1]].own_s += weight
    yield from found


def error_message(complaint: str) -> str:
    """An error of py-spy as a message with advice."""
    first = next((line.strip() for line in complaint.splitlines() if line.strip()), "")
    lower = complaint.lower()
    if "permission denied" in lower or "not permitted" in lower or "requires root" in lower:
        return (
            "py-spy is not permitted to trace this process. Run as root, or on Linux allow it with "
            "`sudo sysctl kernel.yama.ptrace_scope=0`, or start the container with "
            f"`--cap-add SYS_PTRACE`. Its message: {first}"
        )
    return first if first == INSTALL else f"py-spy failed. Its message: {first}"


def _allow_tracing(pid: int) -> None:
    """Allow a child process to trace this one, which Linux restricts to parents."""
    if sys.platform == "linux":
        with suppress(OSError, AttributeError):
            ctypes.CDLL(None).prctl(SET_PTRACER, ctypes.c_ulong(pid), 0, 0, 0)
