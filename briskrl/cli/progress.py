"""What people see of a run: a live panel on a terminal, plain lines elsewhere, and a summary."""

from __future__ import annotations

import os
import shlex
import shutil
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any, TextIO

from briskrl.core.format import (
    format_count,
    format_duration,
    format_percent,
    format_phases,
    format_score,
)

if TYPE_CHECKING:
    from briskrl.training.evaluate import EvalResult
    from briskrl.training.reporter import Progress, Reporter, RunInfo, RunResult

WARMING = "warming up (the first start compiles; later starts read the cache)"
ROW_SECONDS = 5.0
"""Seconds between plain lines; a log file stays readable."""


def make_reporter(stream: TextIO) -> Reporter:
    """A live panel if the stream is a terminal, plain lines if not."""
    if stream.isatty() and os.environ.get("TERM", "") != "dumb":
        return LiveReporter(stream)
    return PlainReporter(stream)


class PlainReporter:
    """One line every few seconds."""

    def __init__(self, stream: TextIO, every_s: float = ROW_SECONDS) -> None:
        self._stream = stream
        self._every_s = every_s
        self._last = -float("inf")

    def on_start(self, info: RunInfo) -> None:
        """Say what runs where, and why nothing moves for a moment."""
        self._say(title(info))
        self._say(WARMING)

    def on_warmup(self, seconds: float) -> None:
        """Say what the warm-up took."""
        self._say(f"warm-up {format_duration(seconds)}")

    def on_progress(self, progress: Progress) -> None:
        """Say how far the run is, unless that was said a moment ago."""
        if time.monotonic() - self._last >= self._every_s:
            self._last = time.monotonic()
            self._say(row(progress))

    def on_note(self, text: str) -> None:
        """Pass the note on."""
        self._say(f"note: {text}")

    def on_end(self, result: RunResult) -> None:
        """Nothing more to follow; the command sums the run up."""

    def _say(self, text: str) -> None:
        print(text, file=self._stream, flush=True)


class LiveReporter:
    """One panel that is redrawn in place, then the summary."""

    def __init__(self, stream: TextIO) -> None:
        from rich.console import Console
        from rich.live import Live

        self._console = Console(file=stream, highlight=False)
        self._live = Live(console=self._console, auto_refresh=False, transient=True)
        self._title = ""
        self._best: float | None = None

    def on_start(self, info: RunInfo) -> None:
        """Remember what runs where, the title of the panel; say why nothing moves for a moment."""
        self._title = title(info)
        self._print(WARMING)

    def on_warmup(self, seconds: float) -> None:
        """Say what the warm-up took and start drawing."""
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
        self._print(f"note: {text}")

    def on_end(self, result: RunResult) -> None:
        """Close the panel; the command sums the run up."""
        self.close()

    def close(self) -> None:
        """Give the terminal back; may be called twice."""
        self._live.stop()

    def _print(self, text: str) -> None:
        self._console.print(text, markup=False, soft_wrap=True)

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
        ("score", f"{format_score(progress.mean_score)}{record}"),
        ("return", format_score(progress.mean_return)),
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
        f"score {format_score(progress.mean_score)}  "
        f"return {format_score(progress.mean_return)}  "
        f"{format_count(progress.steps_per_s)} steps/s  "
        f"{format_count(progress.updates)} updates{epsilon}{_of_machine(progress, '  ')}  "
        f"{format_duration(progress.wall_s)}, {eta(progress)} to go"
    )


def _of_machine(progress: Progress, before: str) -> str:
    fraction = progress.machine_fraction
    return "" if fraction is None else f"{before}{format_percent(fraction)} of this machine"


def eta(progress: Progress) -> str:
    """Time left at the present speed, or a dash before there is one."""
    return "-" if progress.eta_s is None else format_duration(progress.eta_s)


def title(info: RunInfo) -> str:
    """What runs where, in one line."""
    resumed = ", resumed" if info.resumed else ""
    threads = "1 thread" if info.threads == 1 else f"{info.threads} threads"
    learner = " and one that learns meanwhile" if info.overlap else ""
    place = f"{info.num_envs} envs, {info.device}, {threads}{learner}"
    return f"{info.algo} on {info.env}: {place}{resumed}, in {info.run_dir}"


def summary(result: RunResult, played: EvalResult | None) -> str:
    """How well it plays, how fast it trained, where the time went, and what to try next."""
    run, brisk = shlex.quote(result.run_dir), command_name()
    ended = "Finished" if result.stopped == "finished" else "Stopped and saved"
    counts = f"{result.env_steps:,} steps, {result.episodes:,} episodes, {result.updates:,} updates"
    times = f"{format_duration(result.wall_s)} ({format_duration(result.cpu_s)} CPU)"
    lines = [
        f"{ended}: {counts} ({result.updates_per_transition:.4g} per transition)",
        f"  plays    {skill(result, played)}",
        f"  speed    {format_count(result.steps_per_s)} steps/s: {times}, "
        f"after {format_duration(result.warmup_s)} of warm-up",
        f"  machine  {effort(result)}",
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


def skill(result: RunResult, played: EvalResult | None) -> str:
    """The score over fresh games, or that of training if none were played."""
    if played is None:
        return (
            f"score {format_score(result.mean_score)}, return {format_score(result.mean_return)}, "
            "mean of the last training episodes"
        )
    return (
        f"score {format_score(played.mean_score)} on average, "
        f"{format_score(played.max_score)} at best, "
        f"over {played.episodes} fresh games without exploration"
    )


def effort(result: RunResult) -> str:
    """How much arithmetic the run did, and how much this machine could have done."""
    told = f"{format_count(result.flops_per_step)} FLOP per step"
    if result.achieved_gflops is None:
        return told
    rate = f"{told}, {result.achieved_gflops:.3g} GFLOP/s of CPU"
    if result.machine_gflops is None or result.machine_fraction is None:
        return f"{rate}; {command_name()} bench machine tells what could be had"
    best = f"of the {result.machine_gflops:.3g} that a core can do"
    return f"{rate}: {format_percent(result.machine_fraction)} {best}"


def resume_command(result: RunResult) -> str:
    """The command that continues a stopped run."""
    return f"{command_name()} resume {shlex.quote(result.run_dir)}"


def command_name() -> str:
    """What to type: `brisk`, or the path this was called by if the shell does not find that."""
    called = sys.argv[0]
    if shutil.which("brisk") is None and Path(called).name == "brisk":
        return shlex.quote(called)
    return "brisk"


def progress_stream(*, as_json: bool) -> TextIO:
    """Where progress goes: standard output, which belongs to the JSON object if there is one."""
    return sys.stderr if as_json else sys.stdout
