"""The manifest of a checkpoint: all its files with sizes and hashes, to detect damage."""

from __future__ import annotations

import json
import re
from collections.abc import Container
from dataclasses import dataclass
from pathlib import Path

from briskrl.core.errors import InvalidStateError, RunFolderError
from briskrl.core.state_checks import MALFORMED, mapping, short, whole
from briskrl.core.types import JSON
from briskrl.training.storage.atomic_files import FileRecord, cause, hash_bytes, json_bytes, measure
from briskrl.training.storage.own_files import read_regular
from briskrl.training.storage.strict_json import parse_json

FORMAT = 1
"""Version of the checkpoint layout; newer versions cannot be read."""
FILE_NAME = "MANIFEST.json"
_FILE = re.compile(r"(memory/)?[A-Za-z0-9_][A-Za-z0-9_.-]*\.(safetensors|json)")


class DamagedError(Exception):
    """A damaged checkpoint; the message names the file and the problem."""


@dataclass(frozen=True, slots=True)
class Manifest:
    """Every file of a checkpoint, with its size and hash."""

    step: int
    states: tuple[str, ...]
    chunks: dict[str, int]
    """Versions of the memory chunks by name."""
    files: dict[str, FileRecord]
    """By path inside the checkpoint; the manifest itself is not listed."""

    def encode(self) -> bytes:
        """The content of the manifest file, which includes a hash of itself."""
        body = {
            "format": FORMAT,
            "step": self.step,
            "parts": list(self.states),
            "chunks": self.chunks,
            "files": {
                name: {"size": record.size, "blake2b": record.digest}
                for name, record in self.files.items()
            },
        }
        return json_bytes({**body, "blake2b": _digest(body)})

    def verify(self, folder: Path, names: Container[str] | None = None) -> None:
        """Compare every file, or those of these names, with its record.

        Raises:
            DamagedError: A file is missing, unreadable or different.
        """
        for name, record in self.files.items():
            if names is not None and name not in names:
                continue
            try:
                size = (folder / name).stat().st_size
                found = measure(folder / name) if size == record.size else None
            except FileNotFoundError:
                raise DamagedError(f"{name} is missing") from None
            except OSError as error:
                raise DamagedError(f"{name} cannot be read ({cause(error)})") from error
            if found is None:
                raise DamagedError(f"{name} has {size} bytes instead of {record.size}")
            if found != record:
                raise DamagedError(f"the content of {name} has changed")


def read_manifest(folder: Path) -> Manifest:
    """The manifest of a checkpoint folder.

    Raises:
        DamagedError: It is missing or damaged.
        RunFolderError: A newer version of briskrl wrote it.
    """
    try:
        raw = read_regular(folder / FILE_NAME)
        saved = parse_json(raw)
        body = {key: value for key, value in saved.items() if key != "blake2b"}
        intact = saved["blake2b"] == _digest(body) and json_bytes(saved) == raw
        number = whole(saved, "format")
    except FileNotFoundError:
        raise DamagedError(f"{FILE_NAME} is missing") from None
    except OSError as error:
        raise DamagedError(f"{FILE_NAME} cannot be read ({cause(error)})") from error
    except MALFORMED:
        raise DamagedError(f"{FILE_NAME} cannot be parsed") from None
    if not intact:
        raise DamagedError(f"the content of {FILE_NAME} has changed")
    if number > FORMAT:
        raise RunFolderError(
            f"The checkpoint {folder} has format {number}, and this version of briskrl reads "
            f"formats up to {FORMAT}. Upgrade briskrl to the version that wrote the run, or newer."
        )
    try:
        return _decode(saved)
    except MALFORMED as error:
        raise DamagedError(f"{FILE_NAME} holds impossible values ({short(str(error))})") from error


def _decode(saved: dict[str, JSON]) -> Manifest:
    files, chunks, parts = mapping(saved, "files"), mapping(saved, "chunks"), saved["parts"]
    for name in files:
        if not _FILE.fullmatch(name):
            raise InvalidStateError(f"the impossible file {short(name)}")
    if not isinstance(parts, list) or not all(isinstance(part, str) for part in parts):
        raise InvalidStateError("parts is not a list of names")
    records = {
        name: FileRecord(whole(entry, "size"), str(entry["blake2b"]))
        for name, entry in files.items()
    }
    versions = {name: whole(chunks, name, 2**63 - 1) for name in chunks}
    return Manifest(whole(saved, "step"), tuple(parts), versions, records)


def _digest(body: dict[str, JSON]) -> str:
    text = json.dumps(body, sort_keys=True, separators=(",", ":"))
    return hash_bytes(text.encode())
