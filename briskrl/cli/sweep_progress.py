"""Progress of a sweep: a live table on a terminal, plain lines elsewhere."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, TextIO

from briskrl.cli.live_progress import ROW_SECONDS, LiveTable, PacedLines, add_row, is_live
from briskrl.cli.sweep_summary import format_value
from briskrl.cluster.sweep.keys import describe
from briskrl.core.format import format_count, format_duration, format_score

if TYPE_CHECKING:
    from rich.table import Table

    from briskrl.cluster.sweep.folder import SweepInfo
    from briskrl.cluster.sweep.ledger import RunRecord
    from briskrl.cluster.sweep.outcome import TrialSummary

MOST_ROWS = 16
"""Running runs of the live table."""


def make_reporter(stream: TextIO) -> SweepLines | SweepTable:
    """A live table if the stream is a terminal, otherwise plain lines."""
    return SweepTable(stream) if is_live(stream) else SweepLines(stream)


class _Texts:
    """Events as lines of text."""

    def __init__(self) -> None:
        self._info: SweepInfo | None = None
        self._records: Mapping[str, RunRecord] = {}

    def begin(self, info: SweepInfo, records: Mapping[str, RunRecord], jobs: int) -> str:
        """The title."""
        self._info, self._records = info, records
        config, search = info.config, info.settings.search
        keys = ", ".join(info.keys)
        what = f" ({search} search of {keys})" if search else f" (grid of {keys})" if keys else ""
        ended = sum(record.has_ended for record in records.values())
        again = f", {ended} runs have ended before" if ended else ""
        seeds = f"seed{'s' * (len(info.seeds) > 1)} {', '.join(map(str, info.seeds))}"
        return (
            f"sweep of {config.algo} on {config.env}{what}, {seeds}: {jobs} at a time"
            f"{again}, in {info.folder}"
        )

    def counts(self) -> str:
        """Runs that have ended, of those planned so far."""
        assert self._info is not None
        ended = sum(record.has_ended for record in self._records.values())
        total = len(self._records)
        if self._info.settings.search is not None:
            runs = self._info.settings.num_trials * len(self._info.seeds)
            total = max(total, runs)
        return f"{ended}/{total}"

    def run(self, record: RunRecord) -> str:
        """The end of a run, or its begin."""
        assert self._info is not None
        end: str = record.state
        if record.result is not None:
            metric = self._info.metric
            wall_s = record.result.get("wall_s")
            took = "" if wall_s is None else f", {format_duration(wall_s)}"
            end = f"done: {metric} {format_value(record.result.get(metric))}{took}"
        elif record.cause is not None:
            end = f"{record.state}: {record.cause}"
        settings = f" {describe(record.values)}" if record.values else ""
        return f"{self.counts()}  {record.name}{settings}  {end}"

    def trial(self, trial: TrialSummary) -> str:
        """The value of a trial of several runs."""
        assert self._info is not None
        value = format_value(trial.value(self._info.metric))
        what = f"{self._info.metric} {value}, mean of {len(trial.runs)} seeds"
        return f"trial {trial.trial} {describe(trial.values)}  {what}"


def progress_cells(values: Mapping[str, Any]) -> tuple[str, ...]:
    """Share done, steps, score and speed of a run."""
    fraction, speed = values.get("fraction"), values.get("steps_per_s")
    steps = values.get("env_steps")
    return (
        "-" if fraction is None else f"{100 * fraction:3.0f}%",
        "-" if steps is None else f"{format_count(steps)} steps",
        f"score {format_score(values.get('mean_score'))}",
        "-" if speed is None else f"{format_count(speed)} steps/s",
    )


class SweepLines:
    """Prints a line for every end, and one per run every few seconds."""

    def __init__(self, stream: TextIO, every_s: float = ROW_SECONDS) -> None:
        self._lines = PacedLines(stream, every_s)
        self._texts = _Texts()

    def on_start(self, info: SweepInfo, records: Mapping[str, RunRecord], jobs: int) -> None:
        """Print the title."""
        self._lines.print(self._texts.begin(info, records, jobs))

    def on_run(self, record: RunRecord) -> None:
        """Print ends of runs; beginnings start the time until the next line."""
        if record.has_ended:
            self._lines.print(self._texts.run(record))
        else:
            self._lines.begin(record.name)

    def on_progress(self, record: RunRecord, values: Mapping[str, Any]) -> None:
        """Print a line, unless the last one about the run is recent."""
        if values.get("fraction") is not None:
            self._lines.print_progress(
                record.name, lambda: f"{record.name}  {'  '.join(progress_cells(values))}"
            )

    def on_trial(self, trial: TrialSummary) -> None:
        """Print the value of a trial of several runs."""
        if len(trial.runs) > 1 and trial.values:
            self._lines.print(self._texts.trial(trial))

    def on_note(self, text: str) -> None:
        """Print the note."""
        self._lines.print(f"note: {text}")

    def close(self) -> None:
        """Nothing to release."""


class SweepTable:
    """Redraws a table of the running runs; ends are printed above it."""

    COLUMNS = ("run", "settings", "done", "steps", "score", "speed")

    def __init__(self, stream: TextIO) -> None:
        self._live = LiveTable(stream, self._table)
        self._texts = _Texts()
        self._running: dict[str, tuple[RunRecord, Mapping[str, Any]]] = {}

    def on_start(self, info: SweepInfo, records: Mapping[str, RunRecord], jobs: int) -> None:
        """Print the title and start drawing."""
        self._live.print(self._texts.begin(info, records, jobs))
        self._live.start()

    def on_run(self, record: RunRecord) -> None:
        """Show a run that begins, print one that has ended."""
        if record.has_ended:
            self._running.pop(record.name, None)
            self._live.print(self._texts.run(record))
        else:
            self._running[record.name] = (record, {})
        self._live.draw(force=True)

    def on_progress(self, record: RunRecord, values: Mapping[str, Any]) -> None:
        """Redraw, unless that was done just before."""
        if record.name in self._running:
            self._running[record.name] = (record, values)
            self._live.draw()

    def on_trial(self, trial: TrialSummary) -> None:
        """Print the value of a trial of several runs; forget the runs that it gave up."""
        for record in trial.runs:
            self._running.pop(record.name, None)
        if len(trial.runs) > 1 and trial.values:
            self._live.print(self._texts.trial(trial))

    def on_note(self, text: str) -> None:
        """Print the note above the table."""
        self._live.print(f"note: {text}")

    def close(self) -> None:
        """Restore the terminal; may be called twice."""
        self._live.close()

    def _table(self) -> Table:
        table = self._live.empty_table(f"{self._texts.counts()} runs", self.COLUMNS, "settings")
        for record, values in list(self._running.values())[:MOST_ROWS]:
            add_row(table, (record.name, describe(record.values), *progress_cells(values)))
        hidden = len(self._running) - MOST_ROWS
        if hidden > 0:
            table.add_row(f"and {hidden} more")
        return table
