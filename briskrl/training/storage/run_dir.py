"""The folder of one run: paths, lock, and the small files that describe the run."""

from __future__ import annotations

import os
import platform
import re
import shutil
import socket
import subprocess
import sys
from collections.abc import Mapping
from contextlib import suppress
from datetime import UTC, datetime
from importlib.metadata import PackageNotFoundError, version
from itertools import count
from pathlib import Path
from types import TracebackType

from briskrl.core.cpu import cpu_model
from briskrl.core.errors import BriskError, RunFolderError
from briskrl.core.types import JSON, State
from briskrl.training.storage.atomic_files import (
    cause,
    json_bytes,
    make_folder,
    replace,
    storage_errors,
)
from briskrl.training.storage.checkpoint import SavedRun, check_latest, list_checkpoints
from briskrl.training.storage.line_files import plain
from briskrl.training.storage.lock import FolderLock
from briskrl.training.storage.own_files import check_file, check_folder
from briskrl.training.storage.policy_io import MODEL, is_written, read_policy, save_policy
from briskrl.training.storage.strict_json import read_json

ROOT = Path("runs")
"""Where runs without a --run-dir go."""
LOG_FILES = ("metrics.jsonl", "episodes.csv", "phases.jsonl")
"""Files that grow with the run; see `MetricLog`."""
_PACKAGES = ("briskrl", "torch", "numpy", "numba", "gymnasium", "safetensors")


class RunDir:
    """A run folder; a writer must hold its lock (see `create` and `lock`)."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._lock = FolderLock(path / "lock")

    @classmethod
    def create(
        cls,
        path: Path | None,
        *,
        env: str,
        algo: str,
        seed: int,
        config_toml: str,
        root: Path = ROOT,
    ) -> RunDir:
        """Create a run folder with its config.toml, locked by this process.

        Without a path the folder is `<root>/<env>-<algo>-<seed>-<timestamp>`.

        Raises:
            RunFolderError: The path exists.
            StorageError: The folder cannot be written.
        """
        if path is None:
            path = make_named(root, f"{slug(env)}-{slug(algo)}-{seed}")
        else:
            _make_given(path)
        run = cls(path)
        try:
            run._lock.acquire()
            with storage_errors(f"write {run.config_path}"):
                replace(run.config_path, config_toml.encode())
        except BaseException:
            # Without its config the new folder is no run, and would only be in the way.
            run.close()
            shutil.rmtree(path, ignore_errors=True)
            raise
        return run

    @classmethod
    def open(cls, path: Path) -> RunDir:
        """Open an existing run folder without locking it.

        Raises:
            RunFolderError: There is no run in that folder.
        """
        run = cls(path)
        if not path.is_dir():
            raise RunFolderError(
                f"There is no run folder {path}. List the existing runs with: brisk runs"
            )
        if not run.config_path.is_file():
            raise RunFolderError(
                f"{path} is not a run folder: it has no config.toml. "
                "List the existing runs with: brisk runs"
            )
        return run

    def lock(self) -> RunDir:
        """Lock the folder; returns itself, for `with RunDir.open(path).lock():`.

        The folder itself may be reached through a link.

        Raises:
            RunFolderError: Another running process holds the lock, or links in the folder direct
                writes elsewhere.
        """
        for folder in (self.checkpoints, self.policy, self.tensorboard):
            check_folder(folder)
        for name in LOG_FILES:
            check_file(self.path / name)
        self._lock.acquire()
        return self

    @property
    def lock_descriptor(self) -> int:
        """The open file that holds the lock; see `FolderLock.descriptor`."""
        return self._lock.descriptor

    def close(self) -> None:
        """Release the lock; may be called twice."""
        self._lock.release()

    def __enter__(self) -> RunDir:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    @property
    def config_path(self) -> Path:
        """The resolved config, which `brisk train --config` can load."""
        return self.path / "config.toml"

    @property
    def checkpoints(self) -> Path:
        """Folder of the checkpoints."""
        return self.path / "checkpoints"

    @property
    def policy(self) -> Path:
        """Folder of the newest policy."""
        return self.path / "policy"

    @property
    def best_policy(self) -> Path:
        """Folder of the policy with the best evaluation during training."""
        return self.path / "best_policy"

    @property
    def tensorboard(self) -> Path:
        """Folder of the TensorBoard files."""
        return self.path / "tensorboard"

    def check_checkpoints(self) -> None:
        """Check that no checkpoint has been lost, so that a resume may cut the logs to the newest.

        Raises:
            RunFolderError: The newest checkpoint is gone, or all of them.
        """
        check_latest(self.checkpoints)
        # A policy is only written after a checkpoint.
        if not list_checkpoints(self.checkpoints) and os.path.lexists(self.policy):
            raise RunFolderError(
                f"The checkpoints of this run are gone from {self.checkpoints}. Nothing has been "
                "changed. Restore them from a copy, or train anew with: "
                f"brisk train --config {self.config_path} --run-dir FOLDER"
            )

    def begin_session(self, *, seed: int, threads: int, exactness: str, **facts: JSON) -> None:
        """Record in meta.json that a process starts or resumes the run, and on which machine.

        `exactness` is "bit-exact", or says why a resume is not.
        """
        meta = {
            # What the session before has recorded about the end of the run.
            name: value
            for name, value in self.read_meta().items()
            if not name.startswith("final_") and name != "changes"
        }
        session = {"start": timestamp(), "end": None, "exit_reason": None, **describe_machine()}
        changes = _changes(meta.get("config"), facts.get("config"))
        if changes:
            session["changes"] = changes
        about = {"seed": seed, "threads": threads, "exactness": exactness, **facts}
        sessions = [*_sessions(meta), session]
        begun = meta.get("start", session["start"])
        self._write_meta({**meta, **about, **session, "start": begun, "sessions": sessions})

    def end_session(self, reason: str, **facts: JSON) -> None:
        """Record in meta.json why the process that began the last session ends."""
        meta = self.read_meta()
        ending = {"end": timestamp(), "exit_reason": reason}
        sessions = _sessions(meta)
        if sessions:
            sessions[-1].update(ending)
        self._write_meta({**meta, "sessions": sessions, **facts, **ending})

    def record(self, facts: Mapping[str, JSON]) -> None:
        """Add facts to meta.json.

        Raises:
            StorageError: The folder cannot be written.
        """
        self._write_meta({**self.read_meta(), **facts})

    def read_meta(self) -> dict[str, JSON]:
        """The content of meta.json; empty if there is none yet."""
        return _read_object(self.path / "meta.json")

    def write_status(self, status: Mapping[str, JSON]) -> None:
        """Atomically replace status.json by these values and the time.

        Raises:
            StorageError: The disk is full, or the folder cannot be written.
        """
        path = self.path / "status.json"
        content = {"time": timestamp(), "pid": os.getpid(), **status}
        with storage_errors(f"write {path}"):
            replace(path, json_bytes(plain(content)), durable=False)

    def read_status(self) -> dict[str, JSON]:
        """The content of status.json; empty if there is none yet."""
        return _read_object(self.path / "status.json")

    def save_policy(self, arrays: State, description: dict[str, JSON]) -> None:
        """Replace the policy; the description and the scalars of `arrays` go to policy.json.

        Raises:
            StorageError: It could not be written; the previous policy is intact.
            RunFolderError: The policy's folder is a link.
        """
        _save_policy_in(self.policy, arrays, description)

    def save_best_policy(self, arrays: State, description: dict[str, JSON]) -> None:
        """Replace the policy with the best evaluation; see `save_policy`."""
        _save_policy_in(self.best_policy, arrays, description)

    def remove_best_policy(self) -> None:
        """Remove a policy that is the best no longer, after a resume from before it was."""
        if self.best_policy.is_dir() and not self.best_policy.is_symlink():
            shutil.rmtree(self.best_policy, ignore_errors=True)

    def load_best_policy_files(self) -> tuple[State, dict[str, JSON]]:
        """The policy with the best evaluation: its arrays and scalars, and the description.

        Raises:
            RunFolderError: There is none.
        """
        if not self.best_policy.is_dir():
            raise RunFolderError(
                f"{self.path} keeps no best policy. Evaluations during training find it: "
                "brisk train --eval-every STEPS"
            )
        found, _ = read_policy(self.best_policy, self.best_policy / "none")
        return found.state, found.description

    def load_policy_files(self) -> tuple[State, dict[str, JSON]]:
        """The policy of the newest checkpoint: its arrays and scalars, and the description.

        If the writer was killed between checkpoint and policy, the policy comes from the
        checkpoint, and its folder is repaired unless another process writes to the run.

        Raises:
            RunFolderError: There is no policy yet, or it is damaged.
        """
        found, written = read_policy(self.policy, self.checkpoints)
        if not written:
            with suppress(BriskError, OSError), RunDir(self.path).lock() as owner:
                # Read again under the lock, because another process may have written since.
                found, written = read_policy(self.policy, self.checkpoints)
                if not written:
                    owner.save_policy(found.state, found.description)
        return found.state, found.description

    def repair_policy(self, saved: SavedRun, description: dict[str, JSON]) -> None:
        """Replace the policy by that of a checkpoint, unless it is the same.

        Raises:
            StorageError: It could not be written.
        """
        if not is_written(self.policy, saved.manifest):
            self.save_policy(saved.states[MODEL], description)

    def _write_meta(self, meta: Mapping[str, JSON]) -> None:
        path = self.path / "meta.json"
        with storage_errors(f"write {path}"):
            replace(path, json_bytes(plain(meta)))


def _save_policy_in(folder: Path, arrays: State, description: dict[str, JSON]) -> None:
    with storage_errors(f"save the policy in {folder}"):
        check_folder(folder)
        make_folder(folder)
        save_policy(folder, arrays, description)


def check_not_taken(path: Path) -> None:
    """Check that the path of a new run folder does not exist.

    Raises:
        RunFolderError: It exists.
    """
    if path.exists():
        raise RunFolderError(
            f"The run folder {path} already exists. Choose another one with --run-dir, "
            f"or continue the run in it with: brisk resume {path}"
        )


def describe_machine() -> dict[str, JSON]:
    """Versions of packages, source commit, host and processor; imports none of the packages."""
    versions = {name: _version(name) for name in _PACKAGES}
    return {
        "versions": {"python": platform.python_version(), **versions},
        "git_commit": _git_commit(),
        "host": socket.gethostname(),
        "platform": platform.platform(),
        "cpu": cpu_model(),
        "num_cpus": os.cpu_count(),
        "pid": os.getpid(),
        "command": sys.argv,
    }


def timestamp() -> str:
    """The current time in UTC, to the second, as ISO 8601."""
    return datetime.now(UTC).isoformat(timespec="seconds")


def _version(name: str) -> str | None:
    try:
        return version(name)
    except PackageNotFoundError:
        return None


def _git_commit() -> str | None:
    """The commit of the package's own source, if it runs from a git checkout."""
    source = Path(__file__).resolve().parents[3]
    if not (source / ".git").exists():
        return None
    command = ["git", "-C", str(source), "rev-parse", "HEAD"]
    try:
        result = subprocess.run(command, capture_output=True, text=True, timeout=5, check=True)
    except (OSError, subprocess.SubprocessError):
        return None
    return result.stdout.strip() or None


def _make_given(path: Path) -> None:
    check_not_taken(path)
    try:
        make_folder(path, exist_ok=False)
    except OSError as error:
        raise cannot_create(path, error) from error


def make_named(root: Path, name: str, *, flag: str = "--run-dir") -> Path:
    """Create a new folder `<root>/<name>-<timestamp>`; `flag` names another one, for messages.

    Raises:
        RunFolderError: It cannot be created.
    """
    first = root / f"{name}-{datetime.now():%Y%m%d-%H%M%S}"
    path = first
    for number in count(2):
        try:
            make_folder(path, exist_ok=False)
            return path
        except FileExistsError:
            path = first.with_name(f"{first.name}-{number}")
        except OSError as error:
            raise cannot_create(path, error, flag=flag) from error
    raise AssertionError("unreachable")


def cannot_create(path: Path, error: OSError, *, flag: str = "--run-dir") -> RunFolderError:
    """The error for a folder that cannot be created, with the flag that names another one."""
    return RunFolderError(
        f"Could not create the folder {path}: {cause(error)}. Choose another place with {flag}."
    )


def slug(name: str) -> str:
    """A name as part of the name of a folder."""
    return re.sub(r"[^A-Za-z0-9_.-]+", "-", name).strip("-.") or "run"


def _changes(before: JSON, after: JSON) -> dict[str, JSON]:
    """The settings that differ between two sessions: their old and their new value."""
    if not isinstance(before, dict) or not isinstance(after, dict):
        return {}
    found: dict[str, JSON] = {}
    for name in sorted(before.keys() | after.keys()):
        old, new = before.get(name), after.get(name)
        if isinstance(old, dict) and isinstance(new, dict):
            found |= {f"{name}.{key}": pair for key, pair in _changes(old, new).items()}
        elif old != new:
            found[name] = [old, new]
    return found


def _sessions(meta: Mapping[str, JSON]) -> list[dict[str, JSON]]:
    """The sessions in meta.json; entries that are none are left out."""
    found = meta.get("sessions", [])
    return [item for item in found if isinstance(item, dict)] if isinstance(found, list) else []


def _read_object(path: Path) -> dict[str, JSON]:
    try:
        content = read_json(path)
    except FileNotFoundError:
        return {}
    except (OSError, ValueError) as error:
        raise RunFolderError(
            f"{path} cannot be read ({error}). Delete it to continue the run without it."
        ) from error
    return content if isinstance(content, dict) else {}
