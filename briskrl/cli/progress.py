"""Progress of a run: a live panel on a terminal, plain lines elsewhere, and a summary."""

from __future__ import annotations

import os
import shlex
import shutil
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any, TextIO

from briskrl.cli.output import drawing, optional, terminal_environ
from briskrl.core.format import (
    escape_controls,
    format_count,
    format_duration,
    format_percent,
    format_phases,
    format_score,
)

if TYPE_CHECKING:
    from briskrl.training.evaluate import EvalResult
    from briskrl.training.reporter import Progress, Reporter, RunInfo, RunResult

WARMING_UP = "warming up (the first start compiles kernels; later starts use the cache)"
ROW_SECONDS = 5.0
"""Seconds between plain lines, so that a log file stays readable."""


def make_reporter(stream: TextIO, opening: str = "") -> Reporter:
    """A live panel if the stream is a terminal, otherwise plain lines.

    Args:
        stream: Where to print.
        opening: A line to print when the run has begun; empty for none.
    """
    if stream.isatty() and os.environ.get("TERM", "") != "dumb":
        return LiveReporter(stream, opening)
    return PlainReporter(stream, opening)


class PlainReporter:
    """Prints one line every few seconds."""

    def __init__(self, stream: TextIO, opening: str = "", every_s: float = ROW_SECONDS) -> None:
        self._stream = stream
        self._opening = opening
        self._every_s = every_s
        self._last = -float("inf")

    def on_start(self, info: RunInfo) -> None:
        """Print the opening, the title and that the run is warming up."""
        if self._opening:
            self._print(self._opening)
        self._print(title(info))
        self._print(WARMING_UP)

    def on_warmup(self, seconds: float) -> None:
        """Print how long the warm-up took."""
        self._print(f"warm-up {format_duration(seconds)}")

    def on_progress(self, progress: Progress) -> None:
        """Print one line, unless the last one is recent."""
        if time.monotonic() - self._last >= self._every_s:
            self._last = time.monotonic()
            self._print(row(progress))

    def on_note(self, text: str) -> None:
        """Print the note."""
        self._print(noted(text))

    def on_end(self, result: RunResult) -> None:
        """Print nothing; the command prints the summary."""

    def _print(self, text: str) -> None:
        print(text, file=self._stream, flush=True)


class LiveReporter:
    """Redraws one panel in place."""

    def __init__(self, stream: TextIO, opening: str = "") -> None:
        from rich.console import Console
        from rich.live import Live

        self._console = Console(file=drawing(stream), highlight=False, _environ=terminal_environ())
        self._live = Live(console=self._console, auto_refresh=False, transient=True)
        self._opening = opening
        self._title = ""
        self._best: float | None = None

    def on_start(self, info: RunInfo) -> None:
        """Keep the title of the panel; print the opening and that the run is warming up."""
        if self._opening:
            self._print(self._opening)
        self._title = escape_controls(title(info))
        self._print(WARMING_UP)

    def on_warmup(self, seconds: float) -> None:
        """Print how long the warm-up took and start drawing."""
        self._print(f"warm-up {format_duration(seconds)}")
        self._live.start()

    def on_progress(self, progress: Progress) -> None:
        """Redraw."""
        if progress.mean_score is not None:
            best = progress.mean_score if self._best is None else self._best
            self._best = max(best, progress.mean_score)
        self._live.update(self._panel(progress), refresh=True)

    def on_note(self, text: str) -> None:
        """Print the note above the panel."""
        self._print(noted(text))

    def on_end(self, result: RunResult) -> None:
        """Close the panel; the command prints the summary."""
        self.close()

    def close(self) -> None:
        """Restore the terminal; may be called twice."""
        self._live.stop()

    def _print(self, text: str) -> None:
        self._console.print(escape_controls(text, keep="\n"), markup=False, soft_wrap=True)

    def _panel(self, progress: Progress) -> Any:
        from rich import box
        from rich.panel import Panel
        from rich.progress_bar import ProgressBar
        from rich.table import Table
        from rich.text import Text

        grid = Table.grid(padding=(0, 2))
        for label, value in facts(progress, self._best):
            grid.add_row(Text(label, style="dim"), Text(value))
        body = Table.grid(expand=True)
        body.add_row(ProgressBar(total=1.0, completed=progress.fraction))
        body.add_row(grid)
        return Panel(body, title=Text(self._title), box=box.ROUNDED, title_align="left")


def facts(progress: Progress, best: float | None) -> list[tuple[str, str]]:
    """Labels and values of the live panel."""
    record = "" if best is None else f"  (best {format_score(best)})"
    total = "" if progress.total_steps is None else f" of {format_count(progress.total_steps)}"
    steps = f"{format_count(progress.env_steps)}{total}"
    found = [
        ("training score", f"{format_score(progress.mean_score)}{record}"),
        ("training return", format_score(progress.mean_return)),
        ("speed", f"{format_count(progress.steps_per_s)} steps/s{_of_machine(progress, ', ')}"),
        ("done", f"{steps} steps, {format_count(progress.episodes)} episodes"),
        ("updates", format_count(progress.updates)),
    ]
    if progress.epsilon is not None:
        found.append(("epsilon", f"{progress.epsilon:.3f}"))
    if progress.loss is not None:
        found.append(("loss", f"{progress.loss:.4g}"))
    found.append(("time in", format_phases(progress.phases)))
    found.append(("time", f"{format_duration(progress.wall_s)}, {eta(progress)} to go"))
    return found


def row(progress: Progress) -> str:
    """One line of progress."""
    done = 100 * progress.fraction
    epsilon = "" if progress.epsilon is None else f"  epsilon {progress.epsilon:.3f}"
    return (
        f"{done:3.0f}%  {format_count(progress.env_steps)} steps  "
        f"training score {format_score(progress.mean_score)}  "
        f"return {format_score(progress.mean_return)}  "
        f"{format_count(progress.steps_per_s)} steps/s  "
        f"{format_count(progress.updates)} updates{epsilon}{_of_machine(progress, '  ')}  "
        f"{format_duration(progress.wall_s)}, {eta(progress)} to go"
    )


def _of_machine(progress: Progress, before: str) -> str:
    fraction = progress.machine_fraction
    return "" if fraction is None else f"{before}{format_percent(fraction)} of this machine"


def eta(progress: Progress) -> str:
    """Time left at the current speed; a dash if it is unknown."""
    return "-" if progress.eta_s is None else format_duration(progress.eta_s)


def noted(text: str) -> str:
    """A note or a warning as a line of output."""
    return text if text.startswith("warning: ") else f"note: {text}"


def title(info: RunInfo) -> str:
    """One line that names the algorithm, environment, device and run folder."""
    resumed = ", resumed" if info.resumed else ""
    threads = "1 thread" if info.threads == 1 else f"{info.threads} threads"
    learner = " and a learner thread" if info.overlap else ""
    if info.replicas > 1:
        threads = f"{info.replicas} replicas with {threads} each"
    envs = "1 env" if info.num_envs == 1 else f"{info.num_envs} envs"
    place = f"{envs}, {info.device}, {threads}{learner}"
    return f"{info.algo} on {info.env}: {place}{resumed}, in {info.run_dir}"


def summary(result: RunResult, played: EvalResult | None) -> str:
    """The score, the training speed, where the time went, and commands to run next."""
    run, brisk = shlex.quote(result.run_dir), command_name()
    ended = "Finished" if result.stopped == "finished" else "Stopped and saved"
    counts = f"{result.env_steps:,} steps, {result.episodes:,} episodes, {result.updates:,} updates"
    times = f"{format_duration(result.wall_s)} ({format_duration(result.cpu_s)} CPU)"
    lines = [
        f"{ended}: {counts} ({result.updates_per_transition:.4g} per transition)",
        f"  plays    {describe_score(result, played)}",
        *_best_lines(result),
        f"  speed    {format_count(result.steps_per_s)} steps/s: {times}, "
        f"after {format_duration(result.warmup_s)} of warm-up",
        f"  machine  {describe_utilization(result)}",
        f"  time in  {format_phases(result.phases)}",
        f"  folder   {result.run_dir}",
    ]
    if result.stopped == "finished":
        lines += [
            f"  next     {brisk} eval {run} --episodes 1000",
            f"           {brisk} play {run}",
            f"           {brisk} resume {run} --steps {2 * result.env_steps}",
        ]
    return "\n".join(lines)


def _best_lines(result: RunResult) -> list[str]:
    best = result.best_evaluation
    if best is None:
        return []
    score, step = format_score(best["mean_score"]), f"{best['env_steps']:,}"
    return [
        f"  best     score {score} after {step} steps, over {best['episodes']} episodes (--best)"
    ]


def describe_score(result: RunResult, played: EvalResult | None) -> str:
    """The score of the evaluation, or of training if there was none."""
    if played is None:
        return (
            f"score {format_score(result.mean_score)}, return {format_score(result.mean_return)}, "
            "mean of the last training episodes"
        )
    return (
        f"score {format_score(played.mean_score)} on average, "
        f"{format_score(played.max_score)} at best, "
        f"over {played.episodes} new episodes without exploration"
    )


def describe_utilization(result: RunResult) -> str:
    """The arithmetic rate of the run, and what this machine can do."""
    cost = f"{format_count(result.flops_per_step)} FLOP per step"
    if result.achieved_gflops is None:
        return cost
    rate = f"{cost}, {result.achieved_gflops:.3g} GFLOP/s of CPU"
    if result.machine_gflops is None or result.machine_fraction is None:
        return f"{rate}; {command_name()} bench machine measures the peak"
    best = f"of the {result.machine_gflops:.3g} that a core can do"
    return f"{rate}: {format_percent(result.machine_fraction)} {best}"


def resume_command(result: RunResult) -> str:
    """The command that resumes a stopped run."""
    return f"{command_name()} resume {shlex.quote(result.run_dir)}"


def command_name() -> str:
    """`brisk`, or the path of this program if `brisk` is not on the PATH."""
    called = sys.argv[0]
    if shutil.which("brisk") is None and Path(called).name == "brisk":
        return shlex.quote(called)
    return "brisk"


def progress_stream(*, as_json: bool) -> TextIO:
    """The stream for progress: standard output, or standard error if that prints JSON."""
    return optional(sys.stderr if as_json else sys.stdout)
