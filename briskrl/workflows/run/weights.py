"""The last weights of a job as a file, and training that begins with them.

They travel with jobs as bytes, because a worker on another machine does not see the run folder.
"""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from briskrl.algos.base import Algorithm, Policy
from briskrl.algos.registry import ALGOS
from briskrl.core.errors import InvalidStateError, RunFolderError
from briskrl.core.registry import load_object
from briskrl.core.state_checks import invalid_state
from briskrl.core.types import JSON, Array, State
from briskrl.envs.make import make_env
from briskrl.training.config import TrainConfig
from briskrl.training.storage.atomic_files import TEMPORARY, storage_errors
from briskrl.training.storage.own_files import read_regular
from briskrl.training.storage.safetensors_io import parse_tensors, write_tensors

WEIGHTS = "weights.safetensors"
"""File of a job's folder."""
MODEL, OPTIMIZER = "model", "optim"
_ABOUT = "about"
_REWARD_MOMENTS = "reward.moments"
"""Scale of the rewards, without which the values of the network mean something else."""
_RETURNS = "reward.returns"
"""Returns of the episodes under way, which do not go on in another job."""
_MOST_BYTES = 1 << 34


@dataclass(frozen=True, slots=True)
class Start:
    """What training begins with."""

    data: bytes
    """Content of a file of weights."""
    with_optimizer: bool
    """Whether to continue the optimizer, too: for a workflow that is visited again."""


def save_weights(folder: Path, algo: Algorithm, about: Mapping[str, JSON]) -> None:
    """Write the weights and the optimizer of an algorithm into a job's folder.

    Args:
        folder: The folder.
        algo: The algorithm.
        about: What they are for; `load_weights` compares it.
    """
    states = algo.state()
    arrays: dict[str, Array] = {}
    for part in (MODEL, OPTIMIZER):
        arrays |= {f"{part}/{name}": array for name, array in states[part].arrays.items()}
    scalars = {part: states[part].scalars for part in (MODEL, OPTIMIZER)}
    text = json.dumps({"about": dict(about), "scalars": scalars}, sort_keys=True)
    arrays[_ABOUT] = np.frombuffer(text.encode(), np.uint8).copy()
    path = folder / WEIGHTS
    temporary = folder / (TEMPORARY + WEIGHTS)
    with storage_errors(f"write {path}"):
        temporary.unlink(missing_ok=True)
        write_tensors(temporary, arrays)
        os.replace(temporary, path)


def read_weights(folder: Path) -> bytes:
    """The weights that a job has left in its folder.

    Raises:
        RunFolderError: There are none.
    """
    try:
        return read_regular(folder / WEIGHTS, _MOST_BYTES)
    except OSError as error:
        raise RunFolderError(f"The weights of {folder} cannot be read: {error}.") from error


def load_weights(algo: Algorithm, start: Start, about: Mapping[str, JSON]) -> None:
    """Let an algorithm begin with saved weights.

    Raises:
        InvalidStateError: They are for something else, or damaged.
    """
    arrays, found, scalars = _unpack(start.data)
    for name, value in about.items():
        if found.get(name) != value:
            raise InvalidStateError(
                f"the weights were trained for {name} {found.get(name)!r}, not {value!r}"
            )
    parts = {part: _part(arrays, part) for part in (MODEL, OPTIMIZER)}
    states = algo.state()
    states[MODEL] = State(parts[MODEL], scalars[MODEL])
    if start.with_optimizer:
        states[OPTIMIZER] = State(parts[OPTIMIZER], scalars[OPTIMIZER])
    elif _REWARD_MOMENTS in states[OPTIMIZER].arrays:
        states[OPTIMIZER].arrays[_REWARD_MOMENTS] = parts[OPTIMIZER][_REWARD_MOMENTS]
    if _RETURNS in states[OPTIMIZER].arrays:
        states[OPTIMIZER].arrays[_RETURNS] = np.zeros(0)
    algo.load_state(states)


def policy_of(config: TrainConfig, data: bytes) -> Policy:
    """The policy of saved weights, for environments as those of training.

    Raises:
        InvalidStateError: The weights are damaged, or of another network.
    """
    arrays, _, _ = _unpack(data)
    with closing(make_env(config.env, 1, config=config.env_config)) as env:
        spec = env.env_spec
    build = load_object(ALGOS.get(config.algo).policy)
    with invalid_state("the policy"):
        policy: Policy = build(config.algo_config, spec.obs, spec.action, _part(arrays, MODEL))
    return policy


def _unpack(data: bytes) -> tuple[dict[str, Array], dict[str, JSON], dict[str, JSON]]:
    """Arrays by part and name, what they are for, and scalars by part."""
    with invalid_state("the weights"):
        arrays = parse_tensors(data)
        content = json.loads(arrays.pop(_ABOUT).tobytes())
        return arrays, dict(content["about"]), dict(content["scalars"])


def _part(arrays: Mapping[str, Array], part: str) -> dict[str, Array]:
    prefix = f"{part}/"
    return {name[len(prefix) :]: a for name, a in arrays.items() if name.startswith(prefix)}
