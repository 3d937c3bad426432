"""Progress of a run under workflows: a live table on a terminal, plain lines elsewhere."""

from __future__ import annotations

import os
import time
from collections.abc import Mapping
from pathlib import PurePosixPath
from typing import TYPE_CHECKING, Any, TextIO

from briskrl.cli.output import drawing, terminal_environ
from briskrl.cli.workflow_text import job_line, title
from briskrl.core.format import escape_controls, format_count, format_duration, format_figures

if TYPE_CHECKING:
    from briskrl.workflows.run.folder import RunInfo
    from briskrl.workflows.run.ledger import JobRecord

ROW_SECONDS = 10.0
"""Seconds between plain lines about the same job."""
REDRAW_SECONDS = 0.25


def make_reporter(stream: TextIO) -> WorkflowLines | WorkflowTable:
    """A live table if the stream is a terminal, otherwise plain lines."""
    if stream.isatty() and os.environ.get("TERM", "") != "dumb":
        return WorkflowTable(stream)
    return WorkflowLines(stream)


def progress_cells(job: JobRecord, values: Mapping[str, Any]) -> tuple[str, ...]:
    """Episodes, return, compliance and speed of a job."""
    counts, speed = values["counts"], values["figures"].get("steps_per_s")
    episodes = counts["episodes"]
    returns = format_figures(counts["returns"] / episodes) if episodes else "-"
    compliance = f"{counts['ok'] / counts['judged']:.3f}" if counts["judged"] else "-"
    return (
        f"{format_count(values['total_episodes'])}/{format_count(job.cap)} episodes",
        f"return {returns}",
        f"compliance {compliance}",
        "-" if not speed else f"{format_count(speed)} steps/s",
    )


class _Counter:
    """Episodes spent so far, of all."""

    def __init__(self) -> None:
        self._info: RunInfo | None = None
        self._jobs: Mapping[str, JobRecord] = {}

    def begin(self, info: RunInfo, jobs: Mapping[str, JobRecord]) -> None:
        """Count the jobs of this run."""
        self._info, self._jobs = info, jobs

    def episodes(self) -> str:
        """As text; of jobs that run, as far as they have reported."""
        assert self._info is not None
        used = sum(
            job.charged if job.has_ended else int(job.last.get("episodes", 0))
            for job in self._jobs.values()
            if job.kind not in ("plain", "closing")
        )
        return f"{format_count(used)}/{format_count(self._info.config.total_episodes)}"


class WorkflowLines:
    """Prints a line for every end, and one per job every few seconds."""

    def __init__(self, stream: TextIO, every_s: float = ROW_SECONDS) -> None:
        self._stream = stream
        self._every_s = every_s
        self._counter = _Counter()
        self._last: dict[str, float] = {}

    def on_start(self, info: RunInfo, jobs: Mapping[str, JobRecord]) -> None:
        """Print the title."""
        self._info = info
        self._counter.begin(info, jobs)
        self._print(title(info, jobs))

    def on_job(self, job: JobRecord) -> None:
        """Print ends of jobs; beginnings start the time until the next line."""
        if job.has_ended:
            self._print(f"{self._counter.episodes()}  {job_line(self._info, job)}")
        else:
            self._last[job.name] = time.monotonic()

    def on_progress(self, job: JobRecord, values: Mapping[str, Any]) -> None:
        """Print a line, unless the last one about the job is recent."""
        now = time.monotonic()
        if now - self._last.get(job.name, 0.0) >= self._every_s and values["counts"]["episodes"]:
            self._last[job.name] = now
            name = PurePosixPath(job.name).name
            self._print(f"{name}  {'  '.join(progress_cells(job, values))}")

    def on_note(self, text: str) -> None:
        """Print the note."""
        self._print(f"note: {text}")

    def close(self) -> None:
        """Nothing to release."""

    def _print(self, text: str) -> None:
        print(text, file=self._stream, flush=True)


class WorkflowTable:
    """Redraws a table of the running jobs; ends are printed above it."""

    def __init__(self, stream: TextIO) -> None:
        from rich.console import Console
        from rich.live import Live

        self._console = Console(file=drawing(stream), highlight=False, _environ=terminal_environ())
        self._live = Live(console=self._console, auto_refresh=False, transient=True)
        self._counter = _Counter()
        self._running: dict[str, tuple[JobRecord, tuple[str, ...]]] = {}
        self._begin = time.monotonic()
        self._drawn = 0.0

    def on_start(self, info: RunInfo, jobs: Mapping[str, JobRecord]) -> None:
        """Print the title and start drawing."""
        self._info = info
        self._counter.begin(info, jobs)
        self._print(title(info, jobs))
        self._live.start()

    def on_job(self, job: JobRecord) -> None:
        """Show a job that begins, print one that has ended."""
        if job.has_ended:
            self._running.pop(job.name, None)
            self._print(job_line(self._info, job))
        else:
            self._running[job.name] = (job, ("starting", "", "", ""))
        self._draw(force=True)

    def on_progress(self, job: JobRecord, values: Mapping[str, Any]) -> None:
        """Redraw, unless that was done just before; rollouts without episodes show nothing new."""
        if values["counts"]["episodes"]:
            self._running[job.name] = (job, progress_cells(job, values))
            self._draw()

    def on_note(self, text: str) -> None:
        """Print the note above the table."""
        self._print(f"note: {text}")

    def close(self) -> None:
        """Restore the terminal; may be called twice."""
        self._live.stop()

    def _print(self, text: str) -> None:
        self._console.print(escape_controls(text, keep="\n"), markup=False, soft_wrap=True)

    def _draw(self, *, force: bool = False) -> None:
        now = time.monotonic()
        if force or now - self._drawn >= REDRAW_SECONDS:
            self._drawn = now
            self._live.update(self._table(), refresh=True)

    def _table(self) -> Any:
        from rich.table import Table
        from rich.text import Text

        took = format_duration(time.monotonic() - self._begin)
        table = Table(title=f"{self._counter.episodes()} episodes, {took}", title_justify="left")
        for name in ("job", "workflow", "episodes", "return", "compliance", "speed"):
            table.add_column(name, no_wrap=name != "workflow")
        for job, cells in self._running.values():
            flow = (
                ""
                if job.workflow_id is None
                else str(self._info.setup.space.from_id(job.workflow_id))
            )
            row = (PurePosixPath(job.name).name, flow, *cells)
            table.add_row(*(Text(escape_controls(cell)) for cell in row))
        return table
