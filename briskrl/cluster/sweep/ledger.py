"""The ledger of a sweep: every event in order, as lines that are only ever appended.

Replaying `trials.jsonl` gives the state of the sweep, whatever ended its driver. A line is on the
disk before anything that follows from it happens. A torn last line counts as not written.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Literal, TypeVar, get_args

from briskrl.cluster.sweep.settings import Metric
from briskrl.core.errors import RunFolderError
from briskrl.core.state_checks import MALFORMED
from briskrl.core.types import JSON
from briskrl.training.storage.line_files import LineFile, json_line, plain, read_jsonl

LEDGER = "trials.jsonl"
State = Literal["planned", "running", "done", "failed", "pruned", "cancelled"]
ENDS: tuple[State, ...] = ("done", "failed", "pruned", "cancelled")
"""States that a run keeps, unless somebody asks to try it again."""
_STATE_AFTER: Mapping[str, State] = {
    "running": "running",
    "retried": "running",
    "saved": "planned",
    "again": "planned",
    **{end: end for end in ENDS},
}
"""The state of a run after an event of this name."""
T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class RunRecord:
    """One run of a sweep: a trial with one seed."""

    trial: int
    seed: int
    name: str
    """Folder of the run, below that of the sweep, such as "runs/003-seed1"."""
    values: Mapping[str, JSON]
    """Settings that differ between trials; empty for a sweep over seeds alone."""
    state: State = "planned"
    """Planned also means: stopped and saved, to be continued."""
    result: Mapping[str, JSON] | None = None
    """See `RunJob.run`; None unless the run is done."""
    cause: str | None = None
    """Why it has failed, was pruned or cancelled."""
    confirms: bool = False
    """Whether it is a rerun of the best trial on a fresh seed."""

    @property
    def has_ended(self) -> bool:
        """Whether nothing remains to be done."""
        return self.state in ENDS


@dataclass(frozen=True, slots=True)
class PlannedTrial:
    """A trial that a sweep has decided to run."""

    trial: int
    values: Mapping[str, JSON]
    seeds: Sequence[int]
    confirms: bool = False

    def event(self) -> dict[str, JSON]:
        """The line of the ledger."""
        runs = [[seed, run_name(self.trial, seed)] for seed in self.seeds]
        return {
            "event": "trial",
            "trial": self.trial,
            "values": dict(self.values),
            "runs": runs,
            "confirms": self.confirms,
        }


def run_name(trial: int, seed: int) -> str:
    """Name of the folder of a run."""
    return f"runs/{trial:03d}-seed{seed}"


def read_ledger(folder: Path) -> list[RunRecord]:
    """The runs of a sweep in the order in which they were planned, also while it runs.

    Raises:
        RunFolderError: There is no ledger, or it holds something else.
    """
    path = folder / LEDGER
    if not path.is_file():
        raise RunFolderError(f"{folder} is not a sweep folder: it has no {LEDGER}.")
    return list(_replay(path).values())


def replay(events: Iterable[Mapping[str, JSON]]) -> dict[str, RunRecord]:
    """The runs by name after these events; ends of runs that have ended are ignored.

    Raises:
        KeyError, TypeError, ValueError: An event is malformed.
    """
    records: dict[str, RunRecord] = {}
    for event in events:
        if event["event"] == "trial":
            for record in _planned(event):
                records.setdefault(record.name, record)
        elif event["event"] in _STATE_AFTER:
            name = event["name"]
            records[name] = _advance(records[name], event)
    return records


class Ledger:
    """The ledger of a sweep, to be read and continued by its driver.

    Args:
        folder: Folder of the sweep, which must be locked by the caller.

    Raises:
        RunFolderError: The file holds something else than a ledger.
    """

    def __init__(self, folder: Path) -> None:
        path = folder / LEDGER
        self.records = _replay(path) if path.exists() else {}
        """The runs by name, in the order in which they were planned."""
        self._file = LineFile(path)

    def plan(self, trials: Iterable[PlannedTrial]) -> None:
        """Add runs; those that are in the ledger already stay as they are."""
        events = [event for event in (trial.event() for trial in trials) if self._is_new(event)]
        if events:
            self._write(events)
            self.records |= {n: r for n, r in replay(events).items() if n not in self.records}

    def add(self, event: str, name: str, **facts: JSON) -> RunRecord:
        """Add an event of a run; of one that has ended, it is noted and has no effect.

        Args:
            event: running, retried, saved, again, or the state that ends the run.
            name: Name of the run.
            facts: What else to keep; `result` and `cause` become part of the record.

        Returns:
            The run after the event.
        """
        before = self.records[name]
        entry = {"event": event, "name": name, **facts}
        if before.has_ended and event != "again":
            self._write([{**entry, "event": "ignored", "ignored": event}])
            return before
        self._write([entry])
        self.records[name] = _advance(before, entry)
        return self.records[name]

    def note(self, event: str, **facts: JSON) -> None:
        """Add an event of the sweep itself."""
        self._write([{"event": event, **facts}])

    def close(self) -> None:
        """Close the file; may be called twice."""
        self._file.close()

    def _is_new(self, event: Mapping[str, JSON]) -> bool:
        return any(name not in self.records for _, name in event["runs"])

    def _write(self, events: Iterable[Mapping[str, JSON]]) -> None:
        self._file.append(b"".join(map(json_line, events)))
        self._file.sync()


def _replay(path: Path) -> dict[str, RunRecord]:
    try:
        return replay(read_jsonl(path))
    except (OSError, *MALFORMED) as error:
        raise RunFolderError(f"The ledger {path} cannot be read: {error}.") from error


def _planned(event: Mapping[str, JSON]) -> Iterator[RunRecord]:
    trial = _typed(event["trial"], int)
    for seed, name in event["runs"]:
        if name != run_name(trial, _typed(seed, int)):
            raise ValueError(f"{name!r} is not the folder of trial {trial} with seed {seed}")
        yield RunRecord(
            trial=trial,
            seed=seed,
            name=name,
            values=_typed(event["values"], dict),
            confirms=_typed(event["confirms"], bool),
        )


def _advance(record: RunRecord, event: Mapping[str, JSON]) -> RunRecord:
    kind = event["event"]
    if record.has_ended and kind != "again":
        return record
    state = _STATE_AFTER[kind]
    ends = state in ENDS
    return replace(
        record,
        state=state,
        result=_result(event) if state == "done" else None,
        cause=_typed(event["cause"], str) if ends and event.get("cause") is not None else None,
    )


def _result(event: Mapping[str, JSON]) -> dict[str, JSON]:
    """The result of a run, whose metrics are numbers or None."""
    result = {str(name): plain(value) for name, value in _typed(event["result"], dict).items()}
    for name in get_args(Metric):
        value = result.get(name)
        if value is not None and not math.isfinite(value):
            raise ValueError(f"{name} is not finite")
    return result


def _typed(value: JSON, kind: type[T]) -> T:
    """The value, which is exactly of this type: True is no number."""
    if type(value) is not kind:
        raise TypeError(f"{str(value)[:40]!r} is not of the type {kind.__name__}")
    return value
