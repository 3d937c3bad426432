"""Saved states of DQN in the replicas of a run, divided anew among another number of them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
import torch

from briskrl.algos.dqn.value_range import REWARDS, of_all
from briskrl.algos.kernels.moments import merge_moments
from briskrl.core.division import are_equal
from briskrl.core.rng import derive_seed
from briskrl.core.types import Array, State
from briskrl.nets.replica_group import stream_of

_NOISE = ("noise", "acting_noise")
_RECENT = ("recent.obs.count", "recent.obs.mean", "recent.obs.squares")
"""Statistics of observations since they were last put together."""

Arrays = dict[str, Array]


def divide_states(
    states: Sequence[Mapping[str, State]], replicas: int, seed: int
) -> list[dict[str, State]]:
    """The states of `replicas` replicas.

    All of them get the same networks: the mean, if the saved ones were between two averages.

    Args:
        states: The saved states of every replica.
        replicas: Their new number.
        seed: Of the noise of replicas that are new.
    """
    model = State(_mean([state["model"].arrays for state in states]))
    saved = [state["optim"] for state in states]
    optim = _joined([state.arrays for state in saved])
    divided = []
    for rank in range(replicas):
        arrays = dict(optim)
        for name in _NOISE:
            arrays[name] = _noise(name, rank, [state.arrays for state in saved], seed)
        if rank and _RECENT[0] in arrays:
            # They count once.
            arrays |= {name: np.zeros_like(arrays[name]) for name in _RECENT}
        divided.append({"model": model, "optim": State(arrays, saved[0].scalars)})
    return divided


def _joined(saved: Sequence[Arrays]) -> Arrays:
    """The arrays of the optimizer's state of all replicas, as one replica would have them."""
    joined = _mean(saved)
    if _RECENT[0] in joined:
        joined |= _joined_moments(saved)
    if REWARDS in joined:
        joined[REWARDS] = of_all(np.stack([arrays[REWARDS] for arrays in saved]))
    return joined


def _joined_moments(saved: Sequence[Arrays]) -> Arrays:
    """The statistics of all observations that any replica has seen."""
    stacked = [
        np.stack(np.broadcast_arrays(*(arrays[name] for name in _RECENT)), axis=1)
        for arrays in saved
    ]
    total = np.zeros_like(stacked[0])
    merge_moments(total, np.stack(stacked))
    count, mean, squares = total[:, 0], total[:, 1].copy(), total[:, 2].copy()
    return dict(zip(_RECENT, (count[0].reshape(()), mean, squares), strict=True))


def _mean(saved: Sequence[Arrays]) -> Arrays:
    """The arrays as they are where all replicas agree, and their means elsewhere."""
    means = {}
    for name, first in saved[0].items():
        parts = [arrays[name] for arrays in saved]
        differ = first.dtype.kind == "f" and not are_equal(parts)
        mean = np.mean(parts, axis=0, dtype=np.float64).astype(first.dtype) if differ else first
        means[name] = mean
    return means


def _noise(name: str, rank: int, saved: Sequence[Arrays], seed: int) -> Array:
    """The random generator of a replica: its own, or a new one."""
    if rank < len(saved):
        return saved[rank][name]
    on_cpu = torch.Generator().get_state().numel()
    generator = torch.Generator("cpu" if saved[0][name].size == on_cpu else "cuda")
    generator.manual_seed(derive_seed(seed, stream_of(name, rank)))
    state: Array = generator.get_state().numpy().copy()
    return state
