"""The ledger of a run: every event in order, as lines that are only ever appended.

Replaying `ledger.jsonl` gives the state of the run, whatever ended its driver. A line is on the
disk before anything that follows from it happens; only lines of progress, from which nothing
follows, are not waited for. A torn last line counts as not written.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Literal

from briskrl.core.errors import InvalidStateError, RunFolderError
from briskrl.core.state_checks import MALFORMED
from briskrl.core.types import JSON
from briskrl.training.reporter import StopSignal
from briskrl.training.storage.line_files import LineFile, json_line, plain, read_jsonl

LEDGER = "ledger.jsonl"
Kind = Literal["base", "train", "joint", "sweep", "plain", "closing"]
KINDS: tuple[Kind, ...] = ("base", "train", "joint", "sweep", "plain", "closing")
OUTSIDE: tuple[Kind, ...] = ("plain", "closing")
"""Jobs whose episodes do not count."""
State = Literal["dispatched", "done", "failed"]


Stopped = Literal["finished", "failures", "killed", "running"] | StopSignal
"""Why a run has ended: everything is done, too many jobs have failed in a row, its driver was
killed, or a signal; or it has not ended."""


@dataclass(frozen=True, slots=True)
class JobRecord:
    """One job of a run."""

    name: str
    kind: Kind
    workflow_id: int | None = None
    """None unless the job trains under one workflow."""
    visit: int = 0
    """1 for the first training under this workflow."""
    start_from: str | None = None
    """Name of the job whose weights this one begins with; None for new weights."""
    cap: int = 0
    """Episodes of training, at most."""
    cap_is_budget: bool = False
    """Whether the cap is what was left of the whole run."""
    reserved: int = 0
    """Episodes that it may use."""
    choice: Mapping[str, JSON] = field(default_factory=dict)
    """Why the workflow was chosen, for search.csv."""
    state: State = "dispatched"
    result: Mapping[str, JSON] | None = None
    """See `WorkflowJob.run`; None unless the job is done."""
    cause: str | None = None
    """Why it has failed."""
    episodes: int = 0
    """Episodes that are charged: of a job that is done all of them; of one that has failed, those
    that it had reported."""
    last: Mapping[str, JSON] = field(default_factory=dict)
    """Episodes and steps as reported last."""

    @property
    def has_ended(self) -> bool:
        """Whether nothing remains to be done."""
        return self.state != "dispatched"

    @property
    def charged(self) -> int:
        """Episodes that count towards those of the run."""
        return 0 if self.kind in OUTSIDE else self.episodes

    def event(self) -> dict[str, JSON]:
        """The line of the ledger for its dispatch."""
        names = ("kind", "workflow_id", "visit", "start_from", "cap", "cap_is_budget", "reserved")
        facts = {name: getattr(self, name) for name in names}
        return {"event": "dispatch", "job": self.name, **facts, "choice": dict(self.choice)}


@dataclass(frozen=True, slots=True)
class Account:
    """Episodes of a run."""

    total: int
    used: int
    reserved: int

    @property
    def left(self) -> int:
        """Episodes that may be reserved."""
        return self.total - self.used - self.reserved


class Ledger:
    """The ledger of a run, to be read and continued by its driver.

    Args:
        folder: Folder of the run, which must be locked by the caller.

    Raises:
        RunFolderError: The file holds something else than a ledger.
    """

    def __init__(self, folder: Path) -> None:
        path = folder / LEDGER
        self.jobs = _read(path) if path.exists() else {}
        """The jobs by name, in the order in which they were dispatched."""
        self._file = LineFile(path)

    def account(self, total: int) -> Account:
        """What is spent and reserved of `total` episodes."""
        jobs = self.jobs.values()
        used = sum(job.charged for job in jobs)
        return Account(total, used, sum(job.reserved for job in jobs if not job.has_ended))

    def dispatch(self, jobs: Iterable[JobRecord]) -> None:
        """Enter jobs before they are submitted, all of them or none."""
        jobs = list(jobs)
        self._write([job.event() for job in jobs])
        self.jobs |= {job.name: job for job in jobs}

    def progress(self, name: str, episodes: int, steps: int) -> None:
        """Note the episodes and steps of a job so far."""
        entry = {"event": "progress", "job": name, "episodes": episodes, "steps": steps}
        self._enter(entry, durable=False)

    def retried(self, name: str, cause: str) -> None:
        """Note that an attempt was lost and another one follows."""
        self._enter({"event": "retried", "job": name, "cause": cause})

    def done(self, name: str, result: Mapping[str, JSON], episodes: int) -> JobRecord:
        """Enter the result of a job and the episodes that it has used."""
        entry = {"event": "done", "job": name, "episodes": episodes, "result": dict(result)}
        return self._enter(entry)

    def failed(self, name: str, cause: str, episodes: int | None = None) -> JobRecord:
        """Enter that a job has failed; by default the episodes that it has reported are charged."""
        if episodes is None:
            episodes = int(self.jobs[name].last.get("episodes", 0))
        entry = {"event": "failed", "job": name, "cause": cause, "episodes": episodes}
        return self._enter(entry)

    def note(self, event: str, **facts: JSON) -> None:
        """Add an event of the run itself."""
        self._write([{"event": event, **facts}])

    def of_kind(self, *kinds: Kind) -> list[JobRecord]:
        """The jobs of these kinds, in the order in which they were dispatched."""
        return [job for job in self.jobs.values() if job.kind in kinds]

    def close(self) -> None:
        """Close the file; may be called twice."""
        self._file.close()

    def _enter(self, entry: Mapping[str, JSON], *, durable: bool = True) -> JobRecord:
        """Write an event of a job and put it into effect."""
        self._write([entry], durable=durable)
        name = entry["job"]
        self.jobs[name] = _advance(self.jobs[name], plain(entry))
        return self.jobs[name]

    def _write(self, events: Iterable[Mapping[str, JSON]], *, durable: bool = True) -> None:
        self._file.append(b"".join(map(json_line, events)))
        if durable:
            self._file.sync()


def read_ledger(folder: Path) -> dict[str, JobRecord]:
    """The jobs of a run by name, also while it runs.

    Raises:
        RunFolderError: There is no ledger, or it holds something else.
    """
    path = folder / LEDGER
    if not path.is_file():
        raise RunFolderError(f"{folder} is not a run under workflows: it has no {LEDGER}.")
    return _read(path)


def replay(events: Iterable[Mapping[str, JSON]]) -> dict[str, JobRecord]:
    """The jobs after these events.

    Raises:
        KeyError, TypeError, ValueError, InvalidStateError: An event is malformed.
    """
    jobs: dict[str, JobRecord] = {}
    for event in events:
        if event["event"] == "dispatch":
            record = _dispatched(event)
            jobs[record.name] = record
        elif "job" in event:
            jobs[event["job"]] = _advance(jobs[event["job"]], event)
    return jobs


def how_it_ended(folder: Path) -> Stopped:
    """Why the last driver has ended; killed if it has not written that, perhaps not yet."""
    reason: Stopped = "killed"
    for event in read_jsonl(folder / LEDGER):
        if event["event"] in ("begin", "end"):
            reason = event.get("reason", "killed")
    return reason


def _read(path: Path) -> dict[str, JobRecord]:
    try:
        return replay(read_jsonl(path))
    except (OSError, *MALFORMED) as error:
        raise RunFolderError(f"The ledger {path} cannot be read: {error}.") from error


def _dispatched(event: Mapping[str, JSON]) -> JobRecord:
    if event["kind"] not in KINDS:
        raise InvalidStateError(f"a job is of the unknown kind {event['kind']!r}")
    return JobRecord(
        name=event["job"],
        kind=event["kind"],
        workflow_id=event["workflow_id"],
        visit=event["visit"],
        start_from=event["start_from"],
        cap=event["cap"],
        cap_is_budget=event["cap_is_budget"],
        reserved=event["reserved"],
        choice=event["choice"],
    )


def _advance(job: JobRecord, event: Mapping[str, JSON]) -> JobRecord:
    """The job after an event; one that has ended stays as it is."""
    if job.has_ended:
        return job
    match event["event"]:
        case "progress":
            return replace(job, last={name: event[name] for name in ("episodes", "steps")})
        case "done":
            episodes = event["episodes"]
            return replace(job, state="done", result=event["result"], episodes=episodes)
        case "failed":
            episodes = event["episodes"]
            return replace(job, state="failed", cause=event["cause"], episodes=episodes)
    return job
