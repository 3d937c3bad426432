"""Checkpoints: the complete state of a run as safetensors and JSON, written atomically.

A checkpoint is built in a temporary folder and renamed when every byte is on disk, so the process
may be killed at any moment. Its manifest holds the size and hash of every file; loading checks them
first and falls back to an older checkpoint if a file is damaged.
"""

from __future__ import annotations

import os
import re
import shutil
from collections import deque
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from logging import getLogger
from pathlib import Path

from briskrl.core.errors import InvalidStateError, RunFolderError, StorageError
from briskrl.core.state_checks import MALFORMED, invalid_state, mapping, short, whole
from briskrl.core.types import Array, ChunkSource, State
from briskrl.training.storage.atomic_files import (
    TEMPORARY,
    FileRecord,
    cause,
    json_bytes,
    make_folder,
    remedy,
    sync_file,
    sync_folder,
    write_new,
)
from briskrl.training.storage.manifest import FILE_NAME, DamagedError, Manifest, read_manifest
from briskrl.training.storage.own_files import check_folder, read_regular
from briskrl.training.storage.safetensors_io import read_tensors, write_tensors
from briskrl.training.storage.strict_json import read_json

LATEST = "LATEST"
"""File that holds the name of the newest checkpoint."""
STATE_FILE = "state.json"
"""File of a checkpoint that holds scalars and counters."""
_FOLDER = re.compile(r"step_(\d{12,})(?:-(\d+))?")
_NAME = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.-]*")
_MEMORY = "memory"
_log = getLogger(__name__)


@dataclass
class RunState:
    """Everything that determines how a run continues."""

    states: dict[str, State]
    """By name: arrays go to <name>.safetensors, scalars to state.json."""
    counters: dict[str, int]
    memory: ChunkSource | None = None
    """Saved chunk by chunk below memory/; its remaining state belongs to a part."""


@dataclass(frozen=True)
class SavedRun:
    """A verified checkpoint; its memory is not read yet."""

    path: Path
    manifest: Manifest
    states: dict[str, State]
    counters: dict[str, int]
    damaged: tuple[Path, ...]
    """Newer checkpoints that are damaged."""
    notes: tuple[str, ...]
    """Messages to the user about them."""

    @property
    def step(self) -> int:
        """Transitions collected when it was saved."""
        return self.manifest.step

    def read_chunk(self, name: str) -> dict[str, Array]:
        """The arrays of a chunk of the memory."""
        return read_tensors(self.path / _chunk_file(name))


@dataclass(frozen=True)
class _Base:
    """A checkpoint on disk, and the versions of its chunks in the memory of this process."""

    path: Path
    versions: dict[str, int]
    files: dict[str, FileRecord]


class Checkpointer:
    """Writer and reader of the checkpoints of one run.

    Only the process that holds the run's lock may own one, because it removes leftovers of killed
    writers. Unchanged memory chunks are hard links. If more than one checkpoint is kept, they link
    to the last but one, so that consecutive checkpoints share no file and damage to the newest one
    leaves the one before it intact.
    """

    def __init__(self, folder: Path, keep: int) -> None:
        if keep < 1:
            raise ValueError("at least one checkpoint must be kept")
        self.folder = folder
        self.keep = keep
        self._bases: deque[_Base] = deque(maxlen=2 if keep > 1 else 1)
        self._damaged: frozenset[Path] = frozenset()
        self._newest: Path | None = None
        check_folder(folder)
        self._sweep()

    def save(self, step: int, state: RunState) -> Path:
        """Write a checkpoint and drop those beyond `keep`; returns its folder.

        Raises:
            StorageError: It could not be written; earlier checkpoints are as they were.
            RunFolderError: The folder has become a link.
            ValueError: A scalar is NaN or infinite, or a name cannot be a file name.
        """
        try:
            check_folder(self.folder)
            self._sweep()
            target, manifest = self._write(step, state)
        except OSError as error:
            # The message reports how much is free without the unfinished files.
            self._sweep()
            raise self._storage_error(step, state, error) from error
        finally:
            self._sweep()
        self._newest = target
        self._bases.append(_Base(target, manifest.chunks, manifest.files))
        self._rotate()
        return target

    def load(self, restore: Callable[[SavedRun], None] = lambda saved: None) -> SavedRun:
        """Read the newest valid checkpoint, except for the memory, which `load_memory` reads.

        Args:
            restore: Puts a checkpoint into effect; if it raises an InvalidStateError, the next
                older checkpoint is tried.

        Raises:
            RunFolderError: No checkpoint can be used, or a newer briskrl wrote it.
        """
        saved = read_newest(self.folder, restore)
        self._damaged = frozenset(saved.damaged)
        self._newest = saved.path
        return saved

    def load_memory(self, saved: SavedRun, memory: ChunkSource) -> None:
        """Put the saved chunks into `memory`, one at a time; call it after loading the states.

        Raises:
            InvalidStateError: They are not the chunks of this memory in its loaded state.
        """
        chunks, files = saved.manifest.chunks, saved.manifest.files
        wanted = memory.chunk_versions().keys()
        if chunks.keys() != wanted or any(_chunk_file(name) not in files for name in wanted):
            raise InvalidStateError("other chunks of the memory are needed than there are")
        for name in chunks:
            with invalid_state(name):
                memory.load_chunk(name, saved.read_chunk(name))
        # The memory chooses its own version numbers.
        self._bases.append(_Base(saved.path, dict(memory.chunk_versions()), saved.manifest.files))

    def _write(self, step: int, state: RunState) -> tuple[Path, Manifest]:
        """Write the files of a checkpoint, then make it the newest one."""
        target = self._free_name(step)
        temporary = self.folder / (TEMPORARY + target.name)
        pointer = self.folder / (TEMPORARY + LATEST)
        make_folder(self.folder)
        temporary.mkdir()
        manifest = self._fill(temporary, step, state)
        write_new(pointer, [(target.name + "\n").encode()])
        os.rename(temporary, target)
        sync_folder(self.folder)
        os.replace(pointer, self.folder / LATEST)
        sync_folder(self.folder)
        return target, manifest

    def _fill(self, folder: Path, step: int, state: RunState) -> Manifest:
        files: dict[str, FileRecord] = {}
        for name, part in state.states.items():
            if part.arrays:
                file = _checked(name) + ".safetensors"
                files[file] = write_tensors(folder / file, part.arrays, durable=False)
        versions = _versions(state)
        linked = self._put_chunks(folder, versions, state.memory, files)
        scalars = {name: part.scalars for name, part in state.states.items()}
        text = json_bytes({"clock": state.counters, "parts": scalars})
        files[STATE_FILE] = write_new(folder / STATE_FILE, [text], durable=False)
        # Syncing them when all are written is faster than syncing each at once.
        for file in files.keys() - linked:
            sync_file(folder / file)
        if versions:
            sync_folder(folder / _MEMORY)
        manifest = Manifest(step, tuple(state.states), versions, files)
        write_new(folder / FILE_NAME, [manifest.encode()])
        sync_folder(folder)
        return manifest

    def _put_chunks(
        self,
        folder: Path,
        versions: dict[str, int],
        memory: ChunkSource | None,
        files: dict[str, FileRecord],
    ) -> set[str]:
        """Link or write the chunks and add them to `files`; returns those that were linked."""
        linked: set[str] = set()
        if memory is None or not versions:
            return linked
        (folder / _MEMORY).mkdir()
        for name, version in versions.items():
            file = _chunk_file(name)
            base = self._link_base(name, version)
            if base is not None and _link(base.path / file, folder / file):
                files[file] = base.files[file]
                linked.add(file)
            else:
                chunk = memory.read_chunk(name)
                files[file] = write_tensors(folder / file, chunk, durable=False)
        return linked

    def _link_base(self, name: str, version: int) -> _Base | None:
        """The checkpoint that holds this version of the chunk and may share its file, if any."""
        if len(self._bases) < (self._bases.maxlen or 1):
            return None
        base = self._bases[0]
        same = base.versions.get(name) == version
        return base if same and _chunk_file(name) in base.files else None

    def _free_name(self, step: int) -> Path:
        name = f"step_{step:012d}"
        taken = [_place(path.name) for path in list_checkpoints(self.folder)]
        number = max((number for other, number in taken if other == step), default=0) + 1
        return self.folder / (name if number == 1 else f"{name}-{number}")

    def _rotate(self) -> None:
        try:
            good = [path for path in list_checkpoints(self.folder) if path not in self._damaged]
        except OSError as error:
            _log.debug("cannot list %s: %s", self.folder, error)
            return
        surplus = [*good[self.keep :], *self._damaged]
        self._damaged = frozenset()
        for path in surplus:
            # Renamed first, so that a kill in between leaves no checkpoint with missing files.
            try:
                os.rename(path, self.folder / (TEMPORARY + "old-" + path.name))
            except OSError as error:
                _log.warning("Could not remove the old checkpoint %s: %s.", path, cause(error))
        self._sweep()

    def _sweep(self) -> None:
        """Remove unfinished checkpoints, as far as the disk allows it."""
        try:
            if self.folder.is_symlink():
                # `check_folder` has refused it; nothing outside the run is removed.
                return
            for path in self.folder.glob(TEMPORARY + "*"):
                if path.is_dir() and not path.is_symlink():
                    shutil.rmtree(path, ignore_errors=True)
                else:
                    path.unlink(missing_ok=True)
        except OSError as error:
            _log.debug("cannot remove unfinished files from %s: %s", self.folder, error)

    def _storage_error(self, step: int, state: RunState, error: OSError) -> StorageError:
        needed = self._bytes_needed(state)
        rest = (
            f"The newest checkpoint is {self._newest.name}, which is intact."
            if self._newest
            else "There is no checkpoint yet."
        )
        return StorageError(
            f"Could not save a checkpoint of step {step:,} in {self.folder}: {cause(error)}. It "
            f"needs about {needed / 1e6:.1f} MB{_free_space(self.folder)}. {rest} {remedy(error)}"
        )

    def _bytes_needed(self, state: RunState) -> int:
        arrays = [array for part in state.states.values() for array in part.arrays.values()]
        size = sum(array.nbytes for array in arrays)
        for name, version in _versions(state).items():
            if state.memory is not None and self._link_base(name, version) is None:
                size += sum(array.nbytes for array in state.memory.read_chunk(name).values())
        return size


def list_checkpoints(folder: Path) -> list[Path]:
    """Checkpoint folders, newest first, including damaged ones."""
    found = folder.iterdir() if folder.is_dir() else ()
    return [folder / name for name in newest_first(path.name for path in found)]


def newest_first(names: Iterable[str]) -> list[str]:
    """Those of the names that a checkpoint can have, newest first."""
    return sorted(filter(_FOLDER.fullmatch, names), key=_place, reverse=True)


def check_latest(folder: Path) -> None:
    """Check that the newest checkpoint is there; its content is not checked.

    Continuing from an older one would cut off the logs of the steps in between, which is more than
    the user may want to lose.

    Raises:
        RunFolderError: LATEST names a checkpoint that is gone and newer than all others.
    """
    try:
        name = read_regular(folder / LATEST, limit=100).decode().strip()
    except (OSError, ValueError):
        return
    if not _FOLDER.fullmatch(name):
        return
    paths = list_checkpoints(folder)
    if paths and _place(paths[0].name) >= _place(name):
        return
    earlier = (
        f", or delete {folder / LATEST} to go back to {paths[0].name}, "
        "which removes the log lines after it"
        if paths
        else ""
    )
    raise RunFolderError(
        f"The newest checkpoint of this run, {folder / name}, is gone. Nothing has been changed. "
        f"Restore it from a copy{earlier}."
    )


def read_newest(folder: Path, restore: Callable[[SavedRun], None] = lambda saved: None) -> SavedRun:
    """The newest valid checkpoint, put into effect by `restore`; changes nothing on disk.

    Raises:
        RunFolderError: No checkpoint can be used, the newest is gone, or a newer briskrl wrote it.
    """
    check_latest(folder)
    paths = list_checkpoints(folder)
    notes: list[str] = []
    for index, path in enumerate(paths):
        try:
            manifest = read_own_manifest(path)
            manifest.verify(path)
            states, counters = read_states(path, manifest, manifest.states)
            used = [f"The checkpoint {path.name} is used instead."] if notes else []
            saved = SavedRun(
                path, manifest, states, counters, tuple(paths[:index]), (*notes, *used)
            )
            with invalid_state("its state"):
                restore(saved)
        except (DamagedError, InvalidStateError) as damage:
            notes.append(f"The checkpoint {path.name} is damaged: {damage}.")
            continue
        return saved
    found = " ".join(notes) or "There is none."
    raise RunFolderError(
        f"No checkpoint in {folder} can be used. {found} "
        "Restore the folder from a copy if there is one, or start a new run."
    )


def read_own_manifest(path: Path) -> Manifest:
    """The manifest of a checkpoint folder, which is of the step that the folder is named after.

    Raises:
        DamagedError: It is missing, damaged, or of another step.
        RunFolderError: A newer version of briskrl wrote it.
    """
    manifest = read_manifest(path)
    if manifest.step != _place(path.name)[0]:
        raise DamagedError(f"it is a checkpoint of step {manifest.step}")
    return manifest


def step_of(name: str) -> int:
    """The step in the name of a checkpoint."""
    return _place(name)[0]


def _place(name: str) -> tuple[int, int]:
    """The step in a checkpoint's name, and its number among those of the same step."""
    match = _FOLDER.fullmatch(name)
    assert match is not None
    return int(match[1]), int(match[2] or 1)


def read_states(
    path: Path, manifest: Manifest, names: Sequence[str]
) -> tuple[dict[str, State], dict[str, int]]:
    """The states of these names, and the counters, from verified files.

    Raises:
        DamagedError: A state is missing, or a file cannot be parsed.
    """
    try:
        saved = read_json(path / STATE_FILE)
        scalars = mapping(saved, "parts")
        states = {name: State({}, mapping(scalars, name)) for name in names}
        for name, state in states.items():
            if f"{name}.safetensors" in manifest.files:
                state.arrays.update(read_tensors(path / f"{name}.safetensors"))
        counters = mapping(saved, "clock")
        return states, {name: whole(counters, name) for name in counters}
    except (OSError, *MALFORMED) as error:
        raise DamagedError(f"its state cannot be read ({short(str(error))})") from error


def _versions(state: RunState) -> dict[str, int]:
    return {} if state.memory is None else dict(state.memory.chunk_versions())


def _link(source: Path, target: Path) -> bool:
    """Make a hard link; returns whether it worked."""
    try:
        os.link(source, target)
    except OSError as error:
        # Some file systems have none; then the chunk is written again.
        _log.debug("no hard link for %s: %s", target, error)
        return False
    return True


def _chunk_file(name: str) -> str:
    return f"{_MEMORY}/{_checked(name)}.safetensors"


def _checked(name: str) -> str:
    if not _NAME.fullmatch(name):
        raise ValueError(f"{name!r} cannot be the name of a file in a checkpoint")
    return name


def _free_space(folder: Path) -> str:
    try:
        return f", and {shutil.disk_usage(folder).free / 1e6:.1f} MB are free"
    except OSError:
        return ""
