"""What `brisk train` and `brisk resume` share: a run with progress, an answer and an exit code."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import TYPE_CHECKING

from briskrl.cli.progress import LiveReporter, make_reporter, progress_stream, resume_command

if TYPE_CHECKING:
    from briskrl.train.report import Reporter, RunResult

EXIT_CODES = {"finished": 0, "sigint": 130, "sigterm": 143}
"""How a run ended, as the shell sees it."""


def drive(work: Callable[[Reporter], RunResult], *, as_json: bool) -> int:
    """Run `work` with a reporter; prints the answer and returns the exit code."""
    stream = progress_stream(as_json=as_json)
    reporter = make_reporter(stream)
    try:
        result = work(reporter)
    finally:
        if isinstance(reporter, LiveReporter):
            reporter.close()
    if as_json:
        print(json.dumps(result.as_json(), allow_nan=False), flush=True)
    if result.stopped != "finished":
        print(resume_command(result), file=stream, flush=True)
    return EXIT_CODES[result.stopped]
