"""The policy of a run on disk: everything that inference needs, replaced atomically.

Two files cannot be renamed at once, so the description contains the hash of the weights that it
belongs to, and the new description is written before the weights are replaced. Whenever a writer is
killed, one of the two descriptions fits the weights.

A checkpoint is committed before the policy is written. It contains the same weights and the same
description, so a policy that a killed writer left behind is recognized by its hash, and the
checkpoint provides the current one.
"""

from __future__ import annotations

import os
import time
from dataclasses import dataclass
from pathlib import Path

from briskrl.core.errors import RunFolderError
from briskrl.core.state_checks import MALFORMED, mapping
from briskrl.core.types import JSON, State
from briskrl.training.storage.atomic_files import (
    TEMPORARY,
    hash_bytes,
    json_bytes,
    measure,
    sync_folder,
    write_new,
)
from briskrl.training.storage.checkpoint import (
    STATE_FILE,
    list_checkpoints,
    read_own_manifest,
    read_states,
)
from briskrl.training.storage.manifest import DamagedError, Manifest
from briskrl.training.storage.own_files import read_regular
from briskrl.training.storage.safetensors_io import parse_tensors, write_tensors
from briskrl.training.storage.strict_json import read_json

MODEL = "model"
"""Name of the weights among the states of a checkpoint."""
DESCRIPTION = "policy_description"
"""Name of the description among the states of a checkpoint."""
_MODEL_FILE = "model.safetensors"
_DESCRIPTION_FILE = "policy.json"
_MAX_BYTES = 1 << 34
_TRIES = 10


@dataclass(frozen=True, slots=True)
class PolicyFiles:
    """A policy as it is stored."""

    state: State
    """The weights, and their scalars."""
    description: dict[str, JSON]
    digest: str
    """Hash of the file of the weights, which identifies the policy."""

    @property
    def step(self) -> int:
        """Transitions collected when it was written; -1 if unknown."""
        step = self.description.get("env_steps")
        return step if isinstance(step, int) else -1


def save_policy(folder: Path, arrays: State, description: dict[str, JSON]) -> None:
    """Write or replace the policy in an existing folder.

    Raises:
        OSError: It could not be written; the previous policy can still be loaded.
    """
    model, text = folder / (TEMPORARY + _MODEL_FILE), folder / (TEMPORARY + _DESCRIPTION_FILE)
    try:
        model.unlink(missing_ok=True)
        record = write_tensors(model, arrays.arrays)
        content = {
            "description": description,
            "scalars": arrays.scalars,
            "model_blake2b": record.digest,
        }
        _finish_interrupted(folder)
        try:
            write_new(text, [json_bytes(content)])
            sync_folder(folder)
            os.replace(model, folder / _MODEL_FILE)
        except OSError:
            # It describes weights that are not there.
            text.unlink(missing_ok=True)
            raise
        os.replace(text, folder / _DESCRIPTION_FILE)
        sync_folder(folder)
    except BaseException:
        model.unlink(missing_ok=True)
        raise


def read_policy(folder: Path, checkpoints: Path) -> tuple[PolicyFiles, bool]:
    """The policy of the newest checkpoint, and whether `folder` holds it.

    Raises:
        RunFolderError: There is no policy, or it is damaged.
    """
    for _ in range(_TRIES):
        written = _read_written(folder)
        newer = _read_newer(checkpoints, written)
        if newer is not None:
            return newer, False
        if written is not None:
            return written, True
        # A writer may have replaced the files between the reads.
        time.sleep(0.01)
    raise RunFolderError(
        f"There is no usable policy in {folder}. A policy is written with every checkpoint; "
        f"resume the run to write it again: brisk resume {folder.parent}"
    )


def read_checkpoint_policy(checkpoint: Path, folder: Path) -> PolicyFiles:
    """The policy that a checkpoint holds.

    Args:
        checkpoint: The folder of the checkpoint.
        folder: The policy of the run; its description completes checkpoints of older versions.

    Raises:
        RunFolderError: The checkpoint is missing or damaged.
    """
    try:
        manifest = read_own_manifest(checkpoint)
        return _read_saved(checkpoint, manifest, _model_digest(manifest), _read_written(folder))
    except DamagedError as damage:
        raise RunFolderError(f"The checkpoint {checkpoint.name} is damaged: {damage}.") from damage


def is_written(folder: Path, manifest: Manifest) -> bool:
    """Whether `folder` holds the policy of the checkpoint with this manifest."""
    written, record = _read_written(folder), manifest.files.get(_MODEL_FILE)
    return written is not None and record is not None and written.digest == record.digest


def _read_written(folder: Path) -> PolicyFiles | None:
    """The weights in `folder` with the description that names their hash, if there is one."""
    try:
        data = read_regular(folder / _MODEL_FILE, _MAX_BYTES)
        digest = hash_bytes(data)
        content = _fitting_description(folder, digest)
        if content is None:
            return None
        state = State(parse_tensors(data), mapping(content, "scalars"))
        return PolicyFiles(state, mapping(content, "description"), digest)
    except (OSError, *MALFORMED):
        return None


def _read_newer(checkpoints: Path, written: PolicyFiles | None) -> PolicyFiles | None:
    """The policy of the newest valid checkpoint, unless it is `written` or older."""
    try:
        paths = list_checkpoints(checkpoints)
    except OSError:
        # Evaluation needs only the policy; the checkpoints may not be readable for this user.
        paths = []
    for path in paths:
        try:
            manifest = read_own_manifest(path)
            digest = _model_digest(manifest)
            if written is not None and (digest == written.digest or written.step > manifest.step):
                return None
            return _read_saved(path, manifest, digest, written)
        except (DamagedError, RunFolderError):
            continue
    return None


def _read_saved(
    path: Path, manifest: Manifest, digest: str, written: PolicyFiles | None
) -> PolicyFiles:
    manifest.verify(path, (STATE_FILE, _MODEL_FILE))
    if DESCRIPTION in manifest.states:
        states, _ = read_states(path, manifest, (MODEL, DESCRIPTION))
        return PolicyFiles(states[MODEL], states[DESCRIPTION].scalars, digest)
    # Checkpoints of older versions have no description; that of the run differs in the step only.
    if written is None:
        raise DamagedError("it has no description of the policy")
    states, _ = read_states(path, manifest, (MODEL,))
    return PolicyFiles(states[MODEL], {**written.description, "env_steps": manifest.step}, digest)


def _model_digest(manifest: Manifest) -> str:
    record = manifest.files.get(_MODEL_FILE)
    if record is None:
        raise DamagedError(f"{_MODEL_FILE} is missing")
    return record.digest


def _fitting_description(folder: Path, digest: str) -> dict[str, JSON] | None:
    for name in (_DESCRIPTION_FILE, TEMPORARY + _DESCRIPTION_FILE):
        try:
            content: dict[str, JSON] = read_json(folder / name)
            if content["model_blake2b"] == digest:
                return content
        except (OSError, *MALFORMED):
            continue
    return None


def _finish_interrupted(folder: Path) -> None:
    """Keep the description that fits the weights after a kill between the two renames."""
    waiting, model = folder / (TEMPORARY + _DESCRIPTION_FILE), folder / _MODEL_FILE
    if waiting.is_symlink() or not waiting.is_file():
        waiting.unlink(missing_ok=True)
        return
    content = _fitting_description(folder, measure(model).digest) if model.is_file() else None
    if content is not None and json_bytes(content) == waiting.read_bytes():
        os.replace(waiting, folder / _DESCRIPTION_FILE)
    else:
        waiting.unlink()
