"""The policy of a run on disk: everything that inference needs, replaced atomically.

Two files cannot be renamed at once, so the description contains the hash of the weights that it
belongs to, and the new description is written before the weights are replaced. Whenever a writer is
killed, one of the two descriptions fits the weights.
"""

from __future__ import annotations

import json
import os
import time
from pathlib import Path

from briskrl.core.errors import RunFolderError
from briskrl.core.types import JSON, State
from briskrl.training.storage.atomic_files import (
    TEMPORARY,
    hash_bytes,
    json_bytes,
    measure,
    sync_folder,
    write_new,
)
from briskrl.training.storage.safetensors_io import parse_tensors, write_tensors

_MODEL = "model.safetensors"
_DESCRIPTION = "policy.json"
_TRIES = 10


def save_policy(folder: Path, arrays: State, description: dict[str, JSON]) -> None:
    """Write or replace the policy in an existing folder.

    Raises:
        OSError: It could not be written; the previous policy can still be loaded.
    """
    model, text = folder / (TEMPORARY + _MODEL), folder / (TEMPORARY + _DESCRIPTION)
    try:
        model.unlink(missing_ok=True)
        record = write_tensors(model, arrays.arrays)
        content = {
            "description": description,
            "scalars": arrays.scalars,
            "model_blake2b": record.digest,
        }
        _finish_interrupted(folder)
        write_new(text, [json_bytes(content)])
        sync_folder(folder)
        os.replace(model, folder / _MODEL)
        os.replace(text, folder / _DESCRIPTION)
        sync_folder(folder)
    except BaseException:
        model.unlink(missing_ok=True)
        raise


def load_policy_files(folder: Path) -> tuple[State, dict[str, JSON]]:
    """The arrays with their scalars, and the description.

    Raises:
        RunFolderError: There is no policy, or it is damaged.
    """
    for _ in range(_TRIES):
        found = _read_fitting(folder)
        if found is not None:
            return found
        # A writer may have replaced the files between the reads.
        time.sleep(0.01)
    raise RunFolderError(
        f"There is no usable policy in {folder}. A policy is written with every checkpoint; "
        f"resume the run to write it again: brisk resume {folder.parent}"
    )


def _read_fitting(folder: Path) -> tuple[State, dict[str, JSON]] | None:
    """The weights with the description that names their hash, if there is one."""
    try:
        data = (folder / _MODEL).read_bytes()
        content = _fitting_description(folder, hash_bytes(data))
        if content is None:
            return None
        return State(parse_tensors(data), content["scalars"]), content["description"]
    except (OSError, ValueError, KeyError):
        return None


def _fitting_description(folder: Path, digest: str) -> dict[str, JSON] | None:
    for name in (_DESCRIPTION, TEMPORARY + _DESCRIPTION):
        try:
            content: dict[str, JSON] = json.loads((folder / name).read_bytes())
            if content["model_blake2b"] == digest:
                return content
        except (OSError, ValueError, KeyError, TypeError):
            continue
    return None


def _finish_interrupted(folder: Path) -> None:
    """Keep the description that fits the weights after a kill between the two renames."""
    waiting, model = folder / (TEMPORARY + _DESCRIPTION), folder / _MODEL
    if waiting.is_symlink() or not waiting.is_file():
        waiting.unlink(missing_ok=True)
        return
    content = _fitting_description(folder, measure(model).digest) if model.exists() else None
    if content is not None and json_bytes(content) == waiting.read_bytes():
        os.replace(waiting, folder / _DESCRIPTION)
    else:
        waiting.unlink()
