"""Run training with progress, a summary and an exit code, for `brisk train` and `brisk resume`."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import redirect_stdout
from typing import TYPE_CHECKING

from briskrl.cli.output import print_json
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

EVAL_EPISODES = 256
"""Episodes that a finished policy is evaluated on for the summary."""
EXIT_CODES = {"finished": 0, "sighup": 129, "sigint": 130, "sigterm": 143}
"""Exit codes by how the run ended."""


def run_with_progress(work: Callable[[Reporter], RunResult], *, as_json: bool) -> int:
    """Run `work` with a reporter, print the summary and return the exit code."""
    stream = progress_stream(as_json=as_json)
    reporter = make_reporter(stream)
    try:
        # What environments print is progress too, and must not end up beside the JSON object.
        with redirect_stdout(stream):
            result = work(reporter)
    finally:
        if isinstance(reporter, LiveReporter):
            reporter.close()
    print(summary(result, _evaluate(result, as_json=as_json)), file=stream, flush=True)
    if as_json:
        print_json(result.as_json())
    if result.stopped != "finished":
        print(resume_command(result), file=stream, flush=True)
    return EXIT_CODES[result.stopped]


def _evaluate(result: RunResult, *, as_json: bool) -> EvalResult | None:
    """A short evaluation of a finished run; with --json, `brisk eval` is the way to get one."""
    if as_json or result.stopped != "finished":
        return None
    from briskrl.training.evaluate import evaluate

    return evaluate(result.run_dir, episodes=EVAL_EPISODES, seed=0, trust=True)
