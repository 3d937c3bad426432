"""A small chunked memory and a run whose every number follows from one step counter."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from briskrl.core.types import State
from briskrl.training.storage.checkpoint import RunState, SavedRun


class ChunkMemory:
    """Chunks of numbers; writing into one raises its version, as the protocol asks."""

    def __init__(self, num_chunks: int = 4, size: int = 50) -> None:
        self.arrays = {f"chunk_{i}": {"obs": np.zeros(size)} for i in range(num_chunks)}
        self.versions = dict.fromkeys(self.arrays, 1)
        self.reads: list[str] = []

    def chunk_versions(self) -> Mapping[str, int]:
        return dict(self.versions)

    def read_chunk(self, name: str) -> Mapping[str, Any]:
        self.reads.append(name)
        return self.arrays[name]

    def load_chunk(self, name: str, arrays: Mapping[str, Any]) -> None:
        self.arrays[name] = {key: np.array(array) for key, array in arrays.items()}
        self.versions[name] = 1

    def write(self, name: str, value: float) -> None:
        self.arrays[name]["obs"][:] = value
        self.versions[name] += 1


def state_at(step: int, memory: ChunkMemory) -> RunState:
    """A state that is a function of the step; one chunk of the memory is written for it."""
    memory.write(f"chunk_{step % len(memory.arrays)}", step)
    model = State({"w": np.full((7, 3), step, np.float32), "b": np.array(step)}, {"step": step})
    optim = State({"m": np.arange(step, step + 5, dtype=np.uint64)}, {"rng": 2**127 + step})
    return RunState({"model": model, "optim": optim}, {"env_steps": step}, memory)


def check_consistent(saved: SavedRun, memory: ChunkMemory) -> None:
    """Every part and every chunk must come from the same step."""
    step = saved.step
    assert saved.counters == {"env_steps": step}
    assert (saved.states["model"].arrays["w"] == step).all()
    assert saved.states["model"].arrays["b"] == step
    assert saved.states["model"].scalars == {"step": step}
    assert saved.states["optim"].arrays["m"].tolist() == list(range(step, step + 5))
    assert saved.states["optim"].scalars == {"rng": 2**127 + step}
    num_chunks = len(memory.arrays)
    for i in range(num_chunks):
        # The last step not after this one that wrote chunk i; 0 if none has.
        written = max(step - (step - i) % num_chunks, 0)
        assert (memory.arrays[f"chunk_{i}"]["obs"] == written).all(), (step, i)
