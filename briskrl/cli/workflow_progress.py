"""Progress of a run under workflows: a live table on a terminal, plain lines elsewhere."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import PurePosixPath
from typing import TYPE_CHECKING, Any, TextIO

from briskrl.cli.live_progress import ROW_SECONDS, LiveTable, PacedLines, add_row, is_live
from briskrl.cli.workflow_text import job_line, title
from briskrl.core.format import format_count, format_figures

if TYPE_CHECKING:
    from rich.table import Table

    from briskrl.workflows.run.folder import RunInfo
    from briskrl.workflows.run.ledger import JobRecord


def make_reporter(stream: TextIO) -> WorkflowLines | WorkflowTable:
    """A live table if the stream is a terminal, otherwise plain lines."""
    return WorkflowTable(stream) if is_live(stream) else WorkflowLines(stream)


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
        self._lines = PacedLines(stream, every_s)
        self._counter = _Counter()

    def on_start(self, info: RunInfo, jobs: Mapping[str, JobRecord]) -> None:
        """Print the title."""
        self._info = info
        self._counter.begin(info, jobs)
        self._lines.print(title(info, jobs))

    def on_job(self, job: JobRecord) -> None:
        """Print ends of jobs; beginnings start the time until the next line."""
        if job.has_ended:
            self._lines.print(f"{self._counter.episodes()}  {job_line(self._info, job)}")
        else:
            self._lines.begin(job.name)

    def on_progress(self, job: JobRecord, values: Mapping[str, Any]) -> None:
        """Print a line, unless the last one about the job is recent."""
        if values["counts"]["episodes"]:
            name = PurePosixPath(job.name).name
            self._lines.print_progress(
                job.name, lambda: f"{name}  {'  '.join(progress_cells(job, values))}"
            )

    def on_note(self, text: str) -> None:
        """Print the note."""
        self._lines.print(f"note: {text}")

    def close(self) -> None:
        """Nothing to release."""


class WorkflowTable:
    """Redraws a table of the running jobs; ends are printed above it."""

    COLUMNS = ("job", "workflow", "episodes", "return", "compliance", "speed")

    def __init__(self, stream: TextIO) -> None:
        self._live = LiveTable(stream, self._table)
        self._counter = _Counter()
        self._running: dict[str, tuple[JobRecord, tuple[str, ...]]] = {}

    def on_start(self, info: RunInfo, jobs: Mapping[str, JobRecord]) -> None:
        """Print the title and start drawing."""
        self._info = info
        self._counter.begin(info, jobs)
        self._live.print(title(info, jobs))
        self._live.start()

    def on_job(self, job: JobRecord) -> None:
        """Show a job that begins, print one that has ended."""
        if job.has_ended:
            self._running.pop(job.name, None)
            self._live.print(job_line(self._info, job))
        else:
            self._running[job.name] = (job, ("starting", "", "", ""))
        self._live.draw(force=True)

    def on_progress(self, job: JobRecord, values: Mapping[str, Any]) -> None:
        """Redraw, unless that was done just before; rollouts without episodes show nothing new."""
        if values["counts"]["episodes"]:
            self._running[job.name] = (job, progress_cells(job, values))
            self._live.draw()

    def on_note(self, text: str) -> None:
        """Print the note above the table."""
        self._live.print(f"note: {text}")

    def close(self) -> None:
        """Restore the terminal; may be called twice."""
        self._live.close()

    def _table(self) -> Table:
        done = f"{self._counter.episodes()} episodes"
        table = self._live.empty_table(done, self.COLUMNS, "workflow")
        for job, cells in self._running.values():
            add_row(table, (PurePosixPath(job.name).name, self._workflow(job), *cells))
        return table

    def _workflow(self, job: JobRecord) -> str:
        if job.workflow_id is None:
            return ""
        return str(self._info.setup.space.from_id(job.workflow_id))
