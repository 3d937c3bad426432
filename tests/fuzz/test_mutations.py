"""Randomly changed files: read, or refused with an error that the reader documents.

`make fuzz` does the same for hours, guided by coverage.
"""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from tests.fuzz.readers import NAMES
from tests.training.planted import make_run

COUNT = 100


def test_changed_files_are_read_or_refused(tmp_path: Path):
    run = make_run(tmp_path / "run", "cartpole", "ppo")
    folder = tmp_path / "files"
    folder.mkdir()
    command = [sys.executable, "-m", "tests.fuzz.mutations", str(folder), str(run), str(COUNT)]
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr[-4000:]
    rows = [json.loads(line) for line in done.stdout.splitlines()]
    assert [row["name"] for row in rows] == list(NAMES)
    assert {row["name"]: row["findings"] for row in rows if row["findings"]} == {}


GUARDED = {
    "a program": "import subprocess; subprocess.run(['true'])",
    "a module": "import this_module_does_not_exist",
    "a file": "open('/tmp/briskrl-fuzz-test', 'w')",
    "a pickle": "import pickle; pickle.loads(b'cos\\nsystem\\n.')",
}


@pytest.mark.parametrize("code", GUARDED.values(), ids=GUARDED)
def test_the_guard_notices_what_is_forbidden(tmp_path: Path, code: str):
    """In another process, because an audit hook stays until the end."""
    script = f"""
from pathlib import Path
from tests.fuzz.audit import Guard, ViolationError
guard = Guard(Path({str(tmp_path)!r}))
try:
    with guard.watched():
        try:
            {code}
        except Exception:
            pass
except ViolationError:
    raise SystemExit(7)
"""
    assert subprocess.run([sys.executable, "-c", script]).returncode == 7
