"""Saved environments of the replicas of a run, divided anew among another number of them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from briskrl.core.division import divide
from briskrl.core.errors import ConfigError
from briskrl.core.types import Array
from briskrl.envs.gym.snapshot import pack_states, unpack_states

_TEXTS = "envs"
"""Array of the states of Gymnasium environments, as texts."""
_WORKFLOW, _WORKFLOW_ENVS = "workflow.", "workflow.slots"
"""Arrays of workflows: all but one are of the replica, not of its environments."""


def divide_envs(
    states: Sequence[Mapping[str, Array]], num_envs: int, number: int
) -> list[dict[str, Array]]:
    """The states of `number` batches that hold together the environments of the saved ones.

    Args:
        states: What `get_state` has returned in every replica.
        num_envs: Environments of each of them.
        number: Batches.

    Raises:
        ConfigError: An array of these environments cannot be divided.
    """
    divided: list[dict[str, Array]] = [{} for _ in range(number)]
    for name in states[0]:
        parts = _divide(name, [state[name] for state in states], num_envs, number)
        for state, part in zip(divided, parts, strict=True):
            state[name] = part
    return divided


def _divide(name: str, parts: Sequence[Array], num_envs: int, number: int) -> list[Array]:
    if name == _TEXTS:
        texts = [text for part in parts for text in unpack_states({name: part}, num_envs)]
        each = len(texts) // number
        return [pack_states(texts[rank * each : (rank + 1) * each]) for rank in range(number)]
    if name.startswith(_WORKFLOW) and name != _WORKFLOW_ENVS:
        # Statistics go on in the replica of the same number; new ones begin with the first one's.
        return [parts[rank if rank < len(parts) else 0] for rank in range(number)]
    if any(part.ndim == 0 or len(part) != num_envs for part in parts):
        raise ConfigError(
            f"The state of these environments cannot be divided among other replicas: its array "
            f"{name!r} does not have a row for each environment. Keep the number of replicas."
        )
    return divide(parts, number)
