"""What a trainer may ask of an off-policy memory, whichever way it samples."""

from __future__ import annotations

from typing import Protocol

import numpy as np

from briskrl.core.types import (
    Batch,
    ChunkSource,
    Decision,
    Floats,
    Ints,
    State,
    StepBuffers,
)


class Memory(ChunkSource, Protocol):
    """Transitions of N environments, written in batches and sampled in batches."""

    wants_feedback: bool
    """Whether the errors of one update should be known before the next batch is drawn."""

    @property
    def capacity(self) -> int:
        """Transitions the memory has room for."""
        ...

    @property
    def size(self) -> int:
        """Transitions that can be sampled."""
        ...

    @property
    def nbytes(self) -> int:
        """Bytes committed when the memory was built."""
        ...

    def can_sample(self, batch_size: int) -> bool:
        """Whether there is enough for batches of this size."""
        ...

    def write(
        self,
        before: StepBuffers,
        decision: Decision,
        after: StepBuffers,
        ids: Ints | None = None,
    ) -> None:
        """Append one transition per env: `before` led to `decision`, which led to `after`."""
        ...

    def sample(self, rng: np.random.Generator, updates: int, out: Batch) -> None:
        """Fill the first `updates` batches of `out`."""
        ...

    def feedback(self, out: Batch, updates: int, errors: Floats) -> None:
        """Tell the errors (K, B) of the first `updates` batches that `sample` put into `out`."""
        ...

    def clear(self) -> None:
        """Forget everything; what follows is what a newly built memory would do."""
        ...

    def state(self) -> State:
        """What the chunks do not hold; copies."""
        ...

    def load_state(self, state: State) -> None:
        """Continue from a saved state; its chunks may be loaded before or after."""
        ...
