"""The CSV files of a run."""

from __future__ import annotations

import csv
import io
import math
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from time import monotonic

from briskrl.core.types import JSON
from briskrl.training.storage.atomic_files import replace, storage_errors
from briskrl.training.storage.line_files import LineFile

ROWS, SECONDS = 100, 5.0
"""Rows, and seconds, after which a buffer is written."""

UPDATE_COLUMNS = (
    *("job_id", "workflow_id", "workflow", "visit", "update", "env_steps", "episodes"),
    *("total_episodes", "env_return", "bonus", "total_return", "compliance_pooled"),
    *("compliance_macro", "compliance_contested", "judged_per_episode", "idle_per_episode"),
    *("contested_share", "lambda", "policy_loss", "value_loss", "entropy", "approx_kl"),
    *("explained_variance", "collect_s", "update_s", "steps_per_s"),
)
EPISODE_COLUMNS = (
    *("job_id", "workflow_id", "phase", "env", "episode", "length", "env_return", "bonus"),
    *("n_ok", "n_judged", "n_idle", "n_contested"),
)
WORKFLOW_COLUMNS = (
    *("job_id", "workflow_id", "workflow", "visit", "start_from", "status", "stop_reason"),
    *("train_episodes", "eval_episodes", "score", "score_se", "compliance_pooled"),
    *("compliance_contested", "contested_share", "judged_per_episode", "feasible", "seconds"),
)
SEARCH_COLUMNS = (
    *("round", "strategy", "selected_id", "phase", "kernel", "length_scale", "noise", "n_obs"),
    *("pending", "mean", "std", "beta", "acquisition", "exploration", "admissible"),
    *("top1", "top2", "top3", "remaining_episodes"),
)
PAIR_COLUMNS = ("category_i", "category_j", "contested_steps", "share")
EXPOSURE_COLUMNS = ("workflow_id", "category", "open_share", "mean_spell", "spells")
SWEEP_COLUMNS = (
    *("workflow_id", "workflow", "episodes", "score", "score_se", "compliance_pooled"),
    *("compliance_contested", "contested_share", "judged_per_episode", "feasible"),
    *("mean", "std"),
)


class GrowingTable:
    """A CSV file to which rows are appended, in blocks; a killed run loses at most one block.

    Args:
        path: The file; rows that it holds stay.
        columns: Names of the columns.
    """

    def __init__(self, path: Path, columns: Sequence[str]) -> None:
        self._columns = columns
        self._file = LineFile(path, _line(columns).encode())
        self._rows: list[str] = []
        self._due = monotonic() + SECONDS

    def add(self, rows: Iterable[Mapping[str, JSON]]) -> None:
        """Add rows; absent values are empty."""
        self._rows += [_line([_cell(row.get(name)) for name in self._columns]) for row in rows]
        if len(self._rows) >= ROWS or monotonic() >= self._due:
            self.flush()

    def flush(self) -> None:
        """Write what is buffered."""
        if self._rows:
            self._file.append("".join(self._rows).encode())
            self._rows.clear()
        self._due = monotonic() + SECONDS

    def close(self) -> None:
        """Write what is buffered and close the file."""
        self.flush()
        self._file.close()


def write_table(path: Path, columns: Sequence[str], rows: Iterable[Mapping[str, JSON]]) -> None:
    """Write or replace a whole CSV file."""
    lines = [_line(columns), *(_line([_cell(row.get(name)) for name in columns]) for row in rows)]
    with storage_errors(f"write {path}"):
        replace(path, "".join(lines).encode(), durable=False)


def read_table(path: Path) -> list[dict[str, str]]:
    """The rows of a CSV file as text; none if it is missing. A torn last line is left out."""
    if not path.is_file():
        return []
    text = path.read_text(encoding="utf-8")
    return list(csv.DictReader(io.StringIO(text[: text.rfind("\n") + 1])))


def _line(cells: Sequence[str]) -> str:
    out = io.StringIO()
    csv.writer(out, lineterminator="\n").writerow(cells)
    return out.getvalue()


def _cell(value: JSON) -> str:
    """A value with full precision; nothing for what is unknown."""
    if value is None or (isinstance(value, float) and math.isnan(value)):
        return ""
    return repr(value) if isinstance(value, float) else str(value)
