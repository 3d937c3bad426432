"""The episodes of a run, read back from its folder, also while it is in training."""

from __future__ import annotations

import io
from dataclasses import dataclass
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from briskrl.core.errors import RunFolderError
from briskrl.core.state_checks import MALFORMED
from briskrl.training.storage.run_dir import RunDir
from briskrl.training.storage.training_times import read_metrics

Clock = Literal["env_steps", "wall_s", "cpu_s"]
"""What the course of a run is measured in."""
Metric = Literal["score", "return"]
"""The environment's own measure of an episode, or the sum of its rewards."""


@dataclass(frozen=True, slots=True)
class EpisodeLog:
    """Finished episodes in the order in which they ended."""

    steps: NDArray[np.float64]
    """Transitions that the run had collected when the episode ended."""
    values: NDArray[np.float64]
    """Score or return."""


def read_episodes(run: RunDir, metric: Metric = "score") -> EpisodeLog:
    """The episodes of a run; a line that is still being written is left out.

    Raises:
        RunFolderError: There are none, or the file holds something else.
    """
    path = run.path / "episodes.csv"
    try:
        # The file is created when the first episodes have finished.
        data = path.read_bytes() if path.exists() else b""
        names = data[: data.find(b"\n") + 1].decode().strip().split(",")
        body = data[data.find(b"\n") + 1 : data.rfind(b"\n") + 1]
        if not body:
            raise RunFolderError(f"{run.path} has no finished episodes yet.")
        columns = (names.index("env_steps"), names.index(metric))
        table = np.loadtxt(io.BytesIO(body), delimiter=",", usecols=columns, ndmin=2)
    except (OSError, *MALFORMED) as error:
        raise _unreadable(run, str(error)) from error
    if not np.isfinite(table).all():
        raise _unreadable(run, f"a {metric} is not a finite number")
    return EpisodeLog(table[:, 0], table[:, 1])


def seconds_after(run: RunDir, steps: NDArray[np.float64], clock: Clock) -> NDArray[np.float64]:
    """Seconds of training after these numbers of transitions, over all sessions of the run.

    Raises:
        RunFolderError: There are no rows, or the file holds something else.
    """
    path = run.path / "metrics.jsonl"
    try:
        rows = (
            [(row["env_steps"], row[clock]) for row in read_metrics(path)] if path.exists() else []
        )
        if not rows:
            raise RunFolderError(
                f"{run.path} has no times yet: its first row of metrics.jsonl is still missing."
            )
        known = np.array([(0.0, 0.0), *rows], np.float64)
    except (OSError, *MALFORMED) as error:
        raise RunFolderError(f"The times of {run.path} cannot be read: {error}.") from error
    return np.interp(steps, known[:, 0], known[:, 1])


def means_between(
    x: NDArray[np.float64], values: NDArray[np.float64], edges: NDArray[np.float64]
) -> NDArray[np.float64]:
    """Mean of the values up to each edge, since the edge before; NaN where there are none.

    Args:
        x: Places of the values, in ascending order.
        values: As many.
        edges: In ascending order.

    Returns:
        (len(edges) - 1,)
    """
    ends = np.searchsorted(x, edges, side="right")
    totals = np.concatenate(([0.0], np.cumsum(values)))
    counts = np.diff(ends)
    means = np.diff(totals[ends]) / np.maximum(counts, 1)
    return np.where(counts > 0, means, np.nan)


def _unreadable(run: RunDir, why: str) -> RunFolderError:
    return RunFolderError(f"The episodes of {run.path} cannot be read: {why}.")
