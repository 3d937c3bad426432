"""What the page shows about sweeps: how far they are, and their best trial."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import Any

from briskrl.cluster.sweep.folder import SweepInfo, read_sweep
from briskrl.cluster.sweep.ledger import RunRecord, read_ledger
from briskrl.core.errors import BriskError
from briskrl.web.run_index import RunIndex


def describe_sweeps(index: RunIndex) -> list[dict[str, Any]]:
    """All known sweeps, in the order of their names."""
    found = [_describe(key, folder) for key, folder in index.sweep_folders().items()]
    return sorted(found, key=lambda sweep: str(sweep["name"]))


def _describe(key: str, folder: Path) -> dict[str, Any]:
    about: dict[str, Any] = {"id": key, "name": folder.name, "folder": str(folder)}
    try:
        info = read_sweep(folder)
        records = read_ledger(folder)
    except (BriskError, OSError) as error:
        return {**about, "problem": str(error)}
    states = Counter(record.state for record in records)
    best = _best(info, records)
    return {
        **about,
        "env": info.config.env,
        "algo": info.config.algo,
        "keys": list(info.keys),
        "metric": info.metric,
        "runs": len(records),
        "states": dict(states),
        "best": None if best is None else best[0],
        "best_values": None if best is None else dict(best[1].values),
    }


def _best(info: SweepInfo, records: list[RunRecord]) -> tuple[float, RunRecord] | None:
    """The best result of a single run."""
    done = [
        (float(value), record)
        for record in records
        if record.result is not None and (value := record.result.get(info.metric)) is not None
    ]
    if not done:
        return None
    choose = max if info.goal == "max" else min
    return choose(done, key=lambda pair: pair[0])
