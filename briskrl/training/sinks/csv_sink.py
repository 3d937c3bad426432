"""Metrics as metrics.csv in the run folder: a row per report, a column per tag."""

from __future__ import annotations

import csv
import io
from collections.abc import Mapping
from pathlib import Path

from briskrl.training.sinks.base import Points
from briskrl.training.storage.atomic_files import replace, storage_errors
from briskrl.training.storage.line_files import AppendFile

FILE = "metrics.csv"
_STEP = "env_steps"


class CsvSink:
    """A table that grows by rows; a new column rewrites the file, which happens a few times.

    Args:
        folder: The run folder.
    """

    def __init__(self, folder: Path) -> None:
        self._path = folder / FILE
        self._columns: list[str] = []
        if self._path.is_file():
            with self._path.open(newline="") as file:
                self._columns = next(csv.reader(file), [])

    def write(self, points: Points) -> None:
        """See MetricSink."""
        rows: list[dict[str, float | str]] = [{_STEP: step, **dict(tags)} for step, tags in points]
        names = dict.fromkeys([_STEP, *(name for row in rows for name in row)])
        if set(names) <= set(self._columns):
            with storage_errors(f"write {self._path}"):
                file = AppendFile(self._path)
                try:
                    file.append(self._lines(rows).encode())
                finally:
                    file.close()
            return
        self._columns = list(dict.fromkeys([*self._columns, *names]))
        self._rewrite([*self._read(), *rows])

    def rewind(self, step: int) -> None:
        """See MetricSink."""
        if self._columns:
            self._rewrite([row for row in self._read() if float(row[_STEP]) < step])

    def finish(self, summary: Mapping[str, float], video: bytes | None) -> None:
        """Nothing: the table holds the course of training."""

    def close(self) -> None:
        """Nothing is open between writes."""

    def _read(self) -> list[dict[str, float | str]]:
        if not self._path.is_file():
            return []
        with self._path.open(newline="") as file:
            return [dict(row) for row in csv.DictReader(file) if row.get(_STEP)]

    def _rewrite(self, rows: list[dict[str, float | str]]) -> None:
        head = self._lines([dict(zip(self._columns, self._columns, strict=True))])
        with storage_errors(f"write {self._path}"):
            replace(self._path, (head + self._lines(rows)).encode(), durable=False)

    def _lines(self, rows: list[dict[str, float | str]]) -> str:
        text = io.StringIO()
        csv.DictWriter(text, self._columns, lineterminator="\n").writerows(rows)
        return text.getvalue()
