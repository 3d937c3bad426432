"""What `brisk train` and `brisk resume` share: a run with progress, an answer and an exit code."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import TYPE_CHECKING

from briskrl.cli.progress import (
    LiveReporter,
    make_reporter,
    progress_stream,
    resume_command,
    summary,
)

if TYPE_CHECKING:
    from briskrl.training.evaluate import EvalResult
    from briskrl.training.reporter import Reporter, RunResult

GAMES = 256
"""Games a finished agent plays for the summary."""
EXIT_CODES = {"finished": 0, "sigint": 130, "sigterm": 143}
"""How a run ended, as the shell sees it."""


def run_with_progress(work: Callable[[Reporter], RunResult], *, as_json: bool) -> int:
    """Run `work` with a reporter; prints the answer and returns the exit code."""
    stream = progress_stream(as_json=as_json)
    reporter = make_reporter(stream)
    try:
        result = work(reporter)
    finally:
        if isinstance(reporter, LiveReporter):
            reporter.close()
    print(summary(result, _play(result, as_json=as_json)), file=stream, flush=True)
    if as_json:
        print(json.dumps(result.as_json(), allow_nan=False), flush=True)
    if result.stopped != "finished":
        print(resume_command(result), file=stream, flush=True)
    return EXIT_CODES[result.stopped]


def _play(result: RunResult, *, as_json: bool) -> EvalResult | None:
    """A quick look at how well a finished agent plays; machines ask `brisk eval` for that."""
    if as_json or result.stopped != "finished":
        return None
    from briskrl.training.evaluate import evaluate

    return evaluate(result.run_dir, episodes=GAMES, seed=0)
