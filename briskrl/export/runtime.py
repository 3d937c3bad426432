"""Read exported bundles with NumPy alone: no torch, no Numba, ready in milliseconds.

    from briskrl.export.runtime import load_bundle

    policy = load_bundle("my-policy")
    action = policy.act(obs)

`brisk export RUN --to bundle` writes such folders.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from importlib import import_module
from math import prod
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from briskrl.core.errors import InvalidStateError, RunFolderError
from briskrl.core.spec import ArraySpec, action_from_dict
from briskrl.export.acting import ActingPolicy, NetworkDecisions, ObservationMemory
from briskrl.export.numpy_engine import NumpyEngine
from briskrl.export.program import program_of
from briskrl.export.selection import ActionSelector

POLICY_FILE, WEIGHTS_FILE = "policy.json", "model.safetensors"
FORMAT = 1
"""Version of the bundle's layout."""
_MAX_BYTES = 1 << 34
_DTYPES = {"F64": "<f8", "F32": "<f4", "F16": "<f2", "I64": "<i8", "I32": "<i4", "U8": "u1"}
_MALFORMED = (ArithmeticError, AttributeError, LookupError, TypeError, ValueError, RecursionError)


def is_bundle(folder: Path) -> bool:
    """Whether a folder looks like an exported bundle."""
    return (folder / POLICY_FILE).is_file() and (folder / WEIGHTS_FILE).is_file()


def load_bundle(
    folder: str | Path, *, memory: bool = True, seed: int | None = None
) -> ActingPolicy:
    """The policy of a bundle.

    Args:
        folder: What `brisk export --to bundle` wrote.
        memory: Keep the memory that observations of the environment have, so that `act` takes raw
            observations; False for a policy that takes the network's inputs.
        seed: Of sampled actions.

    Raises:
        RunFolderError: There is no bundle, or it is damaged.
    """
    path = Path(folder)
    try:
        about = json.loads(_read(path / POLICY_FILE))
        arrays = parse_weights(_read(path / WEIGHTS_FILE))
        return policy_of(about, arrays, memory=memory, seed=seed)
    except OSError as error:
        raise RunFolderError(
            f"{path} is not an exported bundle: {error.strerror or error}. "
            "`brisk export RUN --to bundle` writes one."
        ) from error
    except (InvalidStateError, *_MALFORMED) as error:
        raise RunFolderError(f"The bundle {path} is damaged: {error}.") from error


def policy_of(
    about: Mapping[str, Any],
    arrays: Mapping[str, NDArray[Any]],
    *,
    memory: bool,
    seed: int | None,
) -> ActingPolicy:
    """The policy of a description and its weights."""
    if "model_blake2b" in about:
        raise InvalidStateError("it is the policy of a run; load the run folder itself")
    if about["format"] != FORMAT:
        raise InvalidStateError(f"its format is {about['format']}, not {FORMAT}")
    obs = about["obs"]
    kind = about["kind"]
    if kind not in ("logits", "values", "gaussian"):
        raise InvalidStateError(f"the kind {kind!r} of its outputs is unknown")
    action = action_from_dict(about["action"])
    engine = NumpyEngine(program_of(about["program"]), arrays)
    return ActingPolicy(
        NetworkDecisions(engine, ActionSelector(action, kind)),
        ArraySpec.of(tuple(obs["shape"]), obs["dtype"], _bound(obs["low"]), _bound(obs["high"])),
        action,
        env=str(about["env"]),
        env_config=about["env_config"],
        memory=memory_of(str(about["env"]), about["env_config"]) if memory else None,
        seed=seed,
    )


def memory_of(env: str, settings: Mapping[str, Any]) -> ObservationMemory | None:
    """A new memory for raw observations of an environment; None if it needs none."""
    from briskrl.envs.registry import ENVS

    address = ENVS.get(env).memory if env in ENVS else ""
    if not address:
        return None
    module, _, name = address.partition(":")
    found: ObservationMemory | None = getattr(import_module(module), name)(settings)
    return found


def parse_weights(data: bytes) -> dict[str, NDArray[Any]]:
    """The arrays of a safetensors file's content.

    Raises:
        InvalidStateError: The content is not in the format.
    """
    start = 8 + int.from_bytes(data[:8], "little")
    if len(data) < 8 or start > len(data):
        raise InvalidStateError("the weights are not a safetensors file")
    arrays = {}
    for name, entry in json.loads(data[8:start]).items():
        if name != "__metadata__":
            arrays[name] = _parse_array(name, entry, data, start)
    return arrays


def _parse_array(name: str, entry: Mapping[str, Any], data: bytes, start: int) -> NDArray[Any]:
    begin, end = entry["data_offsets"]
    shape, dtype = entry["shape"], np.dtype(_DTYPES[entry["dtype"]])
    fits = all(isinstance(size, int) and size >= 0 for size in (begin, end, *shape))
    if not fits or end - begin != prod(shape) * dtype.itemsize or start + end > len(data):
        raise InvalidStateError(f"the array {name} does not fit the file")
    return np.frombuffer(data, dtype, prod(shape), start + begin).reshape(shape)


def _read(path: Path) -> bytes:
    if path.stat().st_size > _MAX_BYTES:
        raise InvalidStateError(f"{path.name} is too large")
    return path.read_bytes()


def _bound(value: float | None) -> float:
    """A bound of observations; JSON has no infinity, so bundles leave it out."""
    return np.nan if value is None else float(value)
