"""Times of a run over all of its sessions; those in metrics.jsonl begin anew with each of them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from pathlib import Path

from briskrl.core.types import JSON
from briskrl.training.storage.line_files import read_jsonl

CLOCKS = ("wall_s", "cpu_s")
ROUNDING = 1e-6
"""Largest relative error of a duration that is computed from a speed."""


def read_metrics(path: Path) -> Iterator[dict[str, JSON]]:
    """The rows of metrics.jsonl, with `wall_s` and `cpu_s` as totals over the sessions so far.

    Time after the last row of a session that was killed is not part of them.

    Raises:
        OSError: The file cannot be read.
        ValueError: A complete line is not a JSON object.
    """
    return total_times(read_jsonl(path))


def total_times(rows: Iterable[dict[str, JSON]]) -> Iterator[dict[str, JSON]]:
    """The rows with `wall_s` and `cpu_s` as totals over the sessions so far."""
    before: dict[str, JSON] | None = None
    earlier = dict.fromkeys(CLOCKS, 0.0)
    for row in rows:
        if before is not None and _begins_session(before, row):
            earlier = {name: earlier[name] + before.get(name, 0.0) for name in CLOCKS}
        before = row
        yield {**row, **{name: earlier[name] + row[name] for name in CLOCKS if name in row}}


def _begins_session(before: dict[str, JSON], row: dict[str, JSON]) -> bool:
    """Whether a row is the first of its session.

    Its time may be larger than that of the row before, if that session was short. But it is at
    most what the steps since that row take at the row's own speed; later rows have more time.
    """
    if row["wall_s"] < before["wall_s"]:
        return True
    steps, speed = row["env_steps"] - before["env_steps"], row.get("steps_per_s")
    return bool(speed and row["wall_s"] <= steps / speed * (1 + ROUNDING))
