"""Run training with progress, a summary and an exit code, for `brisk train` and `brisk resume`."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext, redirect_stdout, suppress
from pathlib import Path
from typing import TYPE_CHECKING

from briskrl.cli.flags import Parser
from briskrl.cli.output import print_json
from briskrl.cli.progress import (
    LiveReporter,
    make_reporter,
    progress_stream,
    resume_command,
    summary,
)
from briskrl.core.errors import BriskError

if TYPE_CHECKING:
    from briskrl.core.types import JSON
    from briskrl.training.evaluate import EvalResult
    from briskrl.training.reporter import Reporter, RunResult

FINAL_EPISODES = 100
"""Episodes that a finished policy is evaluated on, unless --final-episodes says otherwise."""
NO_UPDATE = (
    "No update was done: the policy is as random as at the start. Train longer (--steps), or see "
    "the warnings above."
)
TABLE, NEWEST = "#/runs", "#/curves?follow=newest"
"""Parts of the dashboard's address: the table of runs, and the curves of the newest one."""
EXIT_CODES = {"finished": 0, "callback": 0, "sighup": 129, "sigint": 130, "sigterm": 143}
"""Exit codes by how the run ended."""


def add_final_episodes(parser: Parser) -> None:
    """Add the flag --final-episodes."""
    parser.add_argument(
        "--final-episodes",
        type=_count,
        default=FINAL_EPISODES,
        metavar="INT",
        help="episodes without exploration that the final score is the mean of; 0 for none "
        f"[default: {FINAL_EPISODES}]",
    )


def add_watch(parser: Parser) -> None:
    """Add the flag --watch."""
    parser.add_argument(
        "--watch",
        action="store_true",
        help="serve the dashboard (see brisk dash) until the command ends, and print its address",
    )


def dashboard_beside(
    folder: str | Path | None, *, watch: bool, as_json: bool, view: str = TABLE
) -> AbstractContextManager[None]:
    """The dashboard for as long as this is entered, if --watch was given.

    Args:
        folder: The folder of the run or of many runs; by default those of all runs.
        watch: Whether it was given.
        as_json: Whether standard output is for JSON.
        view: What the page shows first.
    """
    if not watch:
        return nullcontext()
    from briskrl.cli.watch import dashboard

    shown = None if folder is None else str(folder)
    return dashboard(shown, progress_stream(as_json=as_json), view)


def _count(text: str) -> int:
    if not text.isdecimal() or len(text) > 7:
        raise argparse.ArgumentTypeError(f"{text!r} is not a number of episodes")
    return int(text)


def run_with_progress(
    work: Callable[[Reporter], RunResult],
    *,
    as_json: bool,
    final_episodes: int = FINAL_EPISODES,
    opening: str = "",
) -> int:
    """Run `work` with a reporter, print the summary and return the exit code.

    Args:
        work: Trains with a reporter.
        as_json: Whether to print one JSON object, and the progress on standard error.
        final_episodes: Episodes of the final evaluation; 0 for none.
        opening: A line to print when the run has begun; empty for none.
    """
    stream = progress_stream(as_json=as_json)
    reporter = make_reporter(stream, opening)
    try:
        # What environments print is progress too, and must not end up beside the JSON object.
        with redirect_stdout(stream):
            result = work(reporter)
            played = _evaluate(result, final_episodes)
    finally:
        if isinstance(reporter, LiveReporter):
            reporter.close()
    print(summary(result, played), file=stream, flush=True)
    if as_json:
        print_json({**result.as_json(), **_final(played)})
    if result.stopped != "finished":
        print(resume_command(result), file=stream, flush=True)
    elif not result.updates:
        print(f"brisk: {NO_UPDATE}", file=sys.stderr, flush=True)
        return 1
    return EXIT_CODES[result.stopped]


def _evaluate(result: RunResult, episodes: int) -> EvalResult | None:
    """The final evaluation of a finished run, which is recorded in its folder."""
    if not episodes or result.stopped != "finished":
        return None
    from briskrl.training.evaluate import evaluate
    from briskrl.training.storage.run_dir import RunDir

    played = evaluate(result.run_dir, episodes=episodes, seed=0, trust=True)
    with suppress(BriskError):
        facts = {**_final(played), "final_env_steps": result.env_steps}
        RunDir.open(Path(result.run_dir)).record(facts)
    return played


def _final(played: EvalResult | None) -> dict[str, JSON]:
    """The final evaluation, under the names of meta.json and of the JSON output."""
    return {
        "final_score": None if played is None else played.mean_score,
        "final_return": None if played is None else played.mean_return,
        "final_episodes": 0 if played is None else played.episodes,
    }
