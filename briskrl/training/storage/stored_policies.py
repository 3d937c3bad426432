"""The policies that a run folder holds, read without a lock and without changing the folder.

`RunDir.load_policy_files` repairs what a killed writer left behind; readers that only watch a run,
such as the dashboard, use these functions instead.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from briskrl.core.errors import RunFolderError, nearest
from briskrl.training.storage.checkpoint import list_checkpoints, step_of
from briskrl.training.storage.policy_io import PolicyFiles, read_checkpoint_policy, read_policy
from briskrl.training.storage.run_dir import RunDir

NEWEST, BEST = "newest", "best"


class NoPolicyYetError(RunFolderError):
    """The run has not saved a policy."""


@dataclass(frozen=True, slots=True)
class StoredPolicy:
    """A policy that can be chosen."""

    name: str
    """`newest`, `best`, or the name of a checkpoint."""
    step: int | None
    """Transitions collected when it was written; None for `newest` and `best`, which move on."""


def list_policies(folder: Path) -> list[StoredPolicy]:
    """The policies of a run: the newest, the best if evaluations kept one, and all checkpoints.

    Raises:
        RunFolderError: There is no run in that folder.
    """
    run = RunDir.open(folder)
    checkpoints = list_checkpoints(run.checkpoints)
    found = []
    if run.policy.is_dir() or checkpoints:
        found.append(StoredPolicy(NEWEST, None))
    if run.best_policy.is_dir():
        found.append(StoredPolicy(BEST, None))
    return found + [StoredPolicy(path.name, step_of(path.name)) for path in checkpoints]


def read_stored_policy(folder: Path, name: str = NEWEST) -> PolicyFiles:
    """A policy of a run by its name in `list_policies`.

    Raises:
        NoPolicyYetError: The run has not saved any policy.
        RunFolderError: There is no such policy, or it is damaged.
    """
    run, known = RunDir.open(folder), [policy.name for policy in list_policies(folder)]
    if not known:
        raise NoPolicyYetError(
            f"{folder.name} has not saved a policy yet. A policy is saved with every checkpoint."
        )
    # Only names from the list are joined with a path.
    if name not in known:
        raise RunFolderError(f"{folder.name} has no policy {name!r}. {nearest(name, known)}")
    if name == NEWEST:
        return read_policy(run.policy, run.checkpoints)[0]
    if name == BEST:
        return read_policy(run.best_policy, run.best_policy / "none")[0]
    return read_checkpoint_policy(run.checkpoints / name, run.policy)
