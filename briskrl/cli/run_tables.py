"""All runs as one table in a file: a row per run, a column per fact and setting."""

from __future__ import annotations

import csv
import io
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from briskrl.core.errors import BriskError, ConfigError
from briskrl.training.storage.atomic_files import replace, storage_errors
from briskrl.training.storage.run_selection import Facts

Cell = str | int | float | bool | None
_FACTS = (
    *("name", "run_dir", "env", "algo", "status", "env_steps", "total_steps"),
    *("final_score", "mean_score", "best_score"),
)


def rows_of(runs: Sequence[Facts]) -> list[dict[str, Cell]]:
    """Rows with the same columns: facts first, then settings by name."""
    names = sorted({name for run in runs for name in run["settings"]} - set(_FACTS))
    rows = []
    for run in runs:
        row = {name: _cell(run[name]) for name in _FACTS}
        row |= {name: _cell(run["settings"].get(name)) for name in names}
        rows.append(row)
    return rows


def write_csv(runs: Sequence[Facts], path: Path) -> None:
    """Write a table with a head; missing values are empty.

    Raises:
        StorageError: The file cannot be written.
    """
    rows = rows_of(runs)
    text = io.StringIO()
    writer = csv.DictWriter(text, list(rows[0]) if rows else list(_FACTS))
    writer.writeheader()
    writer.writerows(rows)
    with storage_errors(f"write {path}"):
        replace(path, text.getvalue().encode())


def write_parquet(runs: Sequence[Facts], path: Path) -> None:
    """Write a Parquet file; columns with values of several types become texts.

    Raises:
        ConfigError: pyarrow is not installed.
        BriskError: There are no runs.
        StorageError: The file cannot be written.
    """
    try:
        import pyarrow
        from pyarrow import parquet
    except ImportError as error:
        raise ConfigError(
            "Parquet files need pyarrow. Install it with: pip install 'briskrl[parquet]'"
        ) from error
    rows = rows_of(runs)
    if not rows:
        raise BriskError("There are no runs to write.")
    columns = {name: _column([row[name] for row in rows]) for name in rows[0]}
    with storage_errors(f"write {path}"):
        sink = io.BytesIO()
        parquet.write_table(pyarrow.table(columns), sink)
        replace(path, sink.getvalue())


def _column(values: list[Cell]) -> list[Cell]:
    kinds = {type(value) for value in values if value is not None}
    if kinds == {int, float}:
        return [None if value is None else float(value) for value in values]
    if len(kinds) > 1:
        return [None if value is None else str(value) for value in values]
    return values


def _cell(value: Any) -> Cell:
    if value is None or isinstance(value, str | int | float):
        return value
    return ",".join(map(str, value)) if isinstance(value, list) else str(value)
