"""Bundles: a folder with everything that a trained policy needs elsewhere, ready for a model hub.

`model.safetensors` holds the weights, `policy.json` the program and the spaces, `policy.onnx` the
same as one ONNX file, and `README.md` what the policy is and how well it plays.
"""

from __future__ import annotations

import math
import shutil
from pathlib import Path
from typing import Any

from briskrl.core.errors import ConfigError
from briskrl.core.spec import ArraySpec, action_to_dict
from briskrl.core.types import JSON
from briskrl.export.lowering import Lowered
from briskrl.export.runtime import FORMAT, POLICY_FILE, WEIGHTS_FILE, is_bundle
from briskrl.export.selection import Kind
from briskrl.training.evaluate import TrainedAgent
from briskrl.training.storage.atomic_files import TEMPORARY, json_bytes
from briskrl.training.storage.safetensors_io import write_tensors

ONNX_FILE, CARD_FILE = "policy.onnx", "README.md"
FILES = (CARD_FILE, WEIGHTS_FILE, POLICY_FILE, ONNX_FILE)
"""Files of a bundle."""


def check_folder(folder: Path) -> None:
    """Check that a bundle may be written to a folder: missing, empty, or a bundle already.

    Raises:
        ConfigError: It holds something else.
    """
    if not folder.exists() or is_bundle(folder):
        return
    if not folder.is_dir() or any(folder.iterdir()):
        raise ConfigError(f"{folder} exists and is no exported bundle; choose another --output.")


def begin_bundle(folder: Path) -> Path:
    """A new empty folder beside the final one, to write the files of a bundle to."""
    draft = folder.with_name(TEMPORARY + folder.name)
    shutil.rmtree(draft, ignore_errors=True)
    draft.mkdir(parents=True)
    return draft


def finish_bundle(draft: Path, folder: Path) -> None:
    """Put a finished bundle into its place."""
    if folder.exists():
        shutil.rmtree(folder)
    draft.rename(folder)


def write_policy(
    folder: Path, trained: TrainedAgent, lowered: Lowered, kind: Kind, *, has_mask: bool
) -> None:
    """Write the weights and the description of a policy."""
    about = trained.about
    write_tensors(folder / WEIGHTS_FILE, lowered.arrays)
    description: dict[str, JSON] = {
        "format": FORMAT,
        "kind": kind,
        "env": about["env"],
        "env_config": about["env_config"],
        "obs": _obs_as_json(trained.obs),
        "action": _finite(action_to_dict(trained.action)),
        "has_mask": has_mask,
        "training": {name: about[name] for name in ("algo", "algo_config", "env_steps", "seed")},
        "program": lowered.program.as_json(),
    }
    (folder / POLICY_FILE).write_bytes(json_bytes(description))


def _obs_as_json(obs: ArraySpec) -> dict[str, JSON]:
    fields = {"shape": list(obs.shape), "dtype": obs.dtype.name, "low": obs.low, "high": obs.high}
    return _finite(fields)


def _finite(fields: dict[str, Any]) -> dict[str, JSON]:
    """The fields with null for infinite bounds, which JSON does not have."""
    return {
        name: None if isinstance(value, float) and not math.isfinite(value) else value
        for name, value in fields.items()
    }
