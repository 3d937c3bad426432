"""Groups of runs that differ only in their seeds: of run folders, and of the trials of a sweep."""

from __future__ import annotations

from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from briskrl.cluster.run_settings import (
    Flat,
    flat_settings,
    identity,
    read_settings,
)
from briskrl.cluster.sweep.folder import SWEEP_TOML, SweepInfo, read_sweep
from briskrl.cluster.sweep.ledger import RunRecord, read_ledger
from briskrl.cluster.sweep.plan import trial_config
from briskrl.core.errors import ConfigError, RunFolderError
from briskrl.core.types import JSON


@dataclass(frozen=True, slots=True)
class LeftOut:
    """A run that belongs to a group but cannot be compared."""

    folder: Path
    cause: str


@dataclass(frozen=True, slots=True)
class RunGroup:
    """Repetitions of one training with different seeds."""

    settings: Mapping[str, JSON]
    """Settings of the first run; those of tables have dotted names."""
    folders: tuple[Path, ...] = ()
    """Run folders, each of them once."""
    seeds: tuple[int, ...] = ()
    """Seed of every run."""
    left_out: tuple[LeftOut, ...] = ()
    name: str = ""
    """What sets the group apart from the others; see `briskrl.cluster.group_names`."""
    sweep: str = ""
    """Name of the sweep, if the runs are a trial of one."""
    trial: int | None = None
    confirms: bool = False
    """Whether the runs repeat the best trial of a sweep on fresh seeds."""

    @property
    def env(self) -> str:
        """Name of the environment."""
        return str(self.settings["env"])

    @property
    def algo(self) -> str:
        """Name of the algorithm preset."""
        return str(self.settings["algo"])


def is_sweep(folder: Path) -> bool:
    """Whether a folder is that of a sweep."""
    return (folder / SWEEP_TOML).is_file()


def find_groups(folders: Sequence[Path]) -> list[RunGroup]:
    """Groups of run folders and of sweep folders, in the order in which they are given.

    Run folders with equal settings but for the seed are one group; so are the runs of every trial
    of a sweep. A folder that is given several times counts once.

    Raises:
        RunFolderError: A folder holds neither a run nor a sweep, or cannot be read.
    """
    groups: dict[Hashable, RunGroup] = {}
    for folder in {path.resolve(): path for path in folders}.values():
        if is_sweep(folder):
            groups |= {(folder, index): g for index, g in enumerate(trial_groups(folder))}
            continue
        settings = read_settings(folder)
        key = identity(settings)
        groups[key] = _add(groups.get(key) or RunGroup(settings), folder, settings["seed"])
    return list(groups.values())


def trial_groups(folder: Path) -> list[RunGroup]:
    """A group per trial of a sweep, with its finished runs; the others are left out.

    Raises:
        RunFolderError: There is no sweep in the folder, or its files cannot be read.
    """
    info = read_sweep(folder)
    trials: dict[Hashable, list[RunRecord]] = {}
    for record in read_ledger(folder):
        trials.setdefault((record.trial, record.confirms), []).append(record)
    return [_trial_group(info, records) for records in trials.values()]


def _trial_group(info: SweepInfo, records: Sequence[RunRecord]) -> RunGroup:
    first = records[0]
    group = RunGroup(
        settings=_trial_settings(info, records),
        sweep=info.folder.name,
        trial=first.trial,
        confirms=first.confirms,
    )
    for record in records:
        folder = info.folder_of(record)
        if record.state == "done":
            group = _add(group, folder, record.seed)
        else:
            cause = record.state if record.cause is None else f"{record.state}: {record.cause}"
            group = replace(group, left_out=(*group.left_out, LeftOut(folder, cause)))
    return group


def _trial_settings(info: SweepInfo, records: Sequence[RunRecord]) -> Flat:
    """The settings of the first run that has a folder, or else those that it would have."""
    for record in records:
        try:
            return read_settings(info.folder_of(record))
        except RunFolderError:
            continue
    try:
        return flat_settings(trial_config(info, records[0].values))
    except ConfigError:
        # A search may choose values that cannot be combined; such a trial has failed.
        return flat_settings(info.config)


def _add(group: RunGroup, folder: Path, seed: int) -> RunGroup:
    return replace(group, folders=(*group.folders, folder), seeds=(*group.seeds, seed))
