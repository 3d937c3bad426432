"""Named random streams, derived from one root seed and saved with the run.

The numbers of a stream depend only on the root seed and its name, so a new consumer of random
numbers never changes those of the others.
"""

from __future__ import annotations

import zlib

import numpy as np

from briskrl.core.state_checks import invalid_state, short
from briskrl.core.types import JSON, Array


def derive_seed(root: int, name: str) -> int:
    """A 63-bit seed for a named purpose; similar root seeds give unrelated seeds."""
    words = _sequence(root, name).generate_state(2, np.uint32)
    return (int(words[0]) << 31) ^ int(words[1])


def _sequence(root: int, name: str) -> np.random.SeedSequence:
    return np.random.SeedSequence(root, spawn_key=(zlib.crc32(name.encode()),))


class Streams:
    """The NumPy generators of a run, by name, created on first use."""

    def __init__(self, seed: int) -> None:
        self.seed = seed
        self._generators: dict[str, np.random.Generator] = {}

    def __getitem__(self, name: str) -> np.random.Generator:
        """The generator of this name; always the same object."""
        if name not in self._generators:
            bits = np.random.PCG64(_sequence(self.seed, name))
            self._generators[name] = np.random.Generator(bits)
        return self._generators[name]

    def state(self) -> dict[str, JSON]:
        """Positions of all streams used so far, as JSON."""
        return {name: rng.bit_generator.state for name, rng in self._generators.items()}

    def load_state(self, state: dict[str, JSON]) -> None:
        """Move every stream to its saved position; streams not in `state` restart.

        Raises:
            InvalidStateError: A position is not one of PCG64.
        """
        for name, rng in self._generators.items():
            if name not in state:
                rng.bit_generator.state = np.random.PCG64(_sequence(self.seed, name)).state
        for name, position in state.items():
            with invalid_state(f"the random stream {short(name)}"):
                self[name].bit_generator.state = position


class ReplicaGenerator(np.random.Generator):
    """Draws for the environments of one replica what one process would draw for them.

    Rows of all replicas are drawn, and the own ones are kept, so that no action depends on how many
    processes there are.

    Args:
        stream: The stream, the same in all replicas.
        rank: Number of this replica.
        size: Number of replicas.
    """

    def __init__(self, stream: np.random.Generator, rank: int, size: int) -> None:
        super().__init__(stream.bit_generator)
        self._rank, self._size = rank, size
        self._rows = np.zeros(0)

    def random(self, *, out: Array) -> Array:  # type: ignore[override]
        """Fill `out` (N, ...) with uniform numbers in [0, 1)."""
        rows = self._room(out)
        super().random(out=rows)
        return self._keep(rows, out)

    def standard_normal(self, *, out: Array) -> Array:  # type: ignore[override]
        """Fill `out` (N, ...) with standard normal numbers."""
        rows = self._room(out)
        super().standard_normal(out=rows)
        return self._keep(rows, out)

    def _room(self, out: Array) -> Array:
        shape = (len(out) * self._size, *out.shape[1:])
        if self._rows.shape != shape:
            self._rows = np.zeros(shape)
        return self._rows

    def _keep(self, rows: Array, out: Array) -> Array:
        np.copyto(out, rows[self._rank * len(out) : (self._rank + 1) * len(out)])
        return out
