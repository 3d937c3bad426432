"""Random streams of native environments: env i of a batch has the stream of its own seed."""

from __future__ import annotations

from collections.abc import Sequence
from typing import cast

import numpy as np
from numpy.typing import NDArray

from briskrl.core.types import Bools
from briskrl.envs.kernels import rng as rng_kernels

Seeds = int | Sequence[int | None] | None
"""n seeds env i with n + i; a list gives one seed (or None) each; None lets the streams go on."""


def seed_rows(states: NDArray[np.uint64], seeded: Bools, seed: Seeds, which: Bools) -> None:
    """Set the random states of the envs `which` (N,) that get a seed; others keep theirs.

    Args:
        states: (N,), written to.
        seeded: (N,): envs that have been seeded before; written to. Envs that never had a seed and
            get none are seeded at random.
        seed: The seeds.
        which: The envs that may be seeded.
    """
    num_envs = len(states)
    if seed is None:
        seeds: list[int | None] = [None] * num_envs
    elif isinstance(seed, int | np.integer):
        seeds_up = np.arange(num_envs, dtype=np.uint64)
        seeds_up += np.uint64(int(seed) % 2**64)
        states[which] = first_states(seeds_up)[which]
        seeded |= which
        return
    else:
        seeds = list(seed)
    if len(seeds) != num_envs:
        raise ValueError(f"seed must hold {num_envs} seeds, not {len(seeds)}.")
    given = np.array([value is not None for value in seeds]) & which
    words: NDArray[np.uint64] = np.array([(value or 0) % 2**64 for value in seeds], np.uint64)
    fresh = which & ~given & ~seeded
    words[fresh] = np.random.default_rng().integers(
        2**64 - 1, size=int(fresh.sum()), dtype=np.uint64
    )
    given |= fresh
    states[given] = first_states(words)[given]
    seeded |= given


def first_states(seeds: NDArray[np.uint64]) -> NDArray[np.uint64]:
    """The first random states of envs with these seeds: one SplitMix64 output each."""
    z = seeds + rng_kernels.GOLDEN
    z = (z ^ (z >> np.uint64(30))) * rng_kernels.MIX_1
    z = (z ^ (z >> np.uint64(27))) * rng_kernels.MIX_2
    return cast("NDArray[np.uint64]", z ^ (z >> np.uint64(31)))
