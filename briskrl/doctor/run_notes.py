"""What a run folder tells about itself, read and nothing else."""

from __future__ import annotations

from contextlib import suppress
from pathlib import Path
from typing import Any

import numpy as np

from briskrl import __version__
from briskrl.core.errors import BriskError
from briskrl.training.storage.jsonl import read_jsonl
from briskrl.training.storage.run_dir import RunDir

MINUTE_S = 60.0


def describe_run(folder: Path) -> list[str]:
    """Sentences about a run: who made it, how fast it was first and last."""
    return [*_version(folder), *_speeds(folder)]


def _version(folder: Path) -> list[str]:
    with suppress(BriskError, OSError, ValueError):
        versions: Any = RunDir.open(folder).read_meta().get("versions", {})
        made_by = versions.get("briskrl")
        if made_by not in (None, __version__):
            return [
                f"the run was made by briskrl {made_by}, this is {__version__}: its settings are "
                "trained with today's code"
            ]
    return []


def _speeds(folder: Path) -> list[str]:
    """How fast the run itself was in its first minute and after it."""
    try:
        rows: list[Any] = list(read_jsonl(folder / "metrics.jsonl"))
    except (OSError, ValueError) as error:
        return [f"its metrics cannot be read: {error}"]
    known = [row for row in rows if row.get("steps_per_s") and row.get("wall_s") is not None]
    first = [row["steps_per_s"] for row in known if row["wall_s"] <= MINUTE_S]
    later = [row["steps_per_s"] for row in known if row["wall_s"] > MINUTE_S]
    if not first:
        return ["it has not run long enough to have a speed of its own"]
    told = f"the run itself made {np.median(first):,.0f} steps/s in its first minute"
    return [f"{told} and {np.median(later):,.0f} later" if later else told]
