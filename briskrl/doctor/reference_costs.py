"""Cost of an efficient implementation of some phases, measured on this machine."""

from __future__ import annotations

from collections.abc import Callable
from time import process_time

import numpy as np

MEASURED_S = 0.05
TIMES = 5
ROWS = 256
"""Batch size; larger than most."""


def batched_write_s(num_envs: int, obs_size: int) -> float:
    """Seconds to store one transition of each environment in one write per array."""
    memory = [np.zeros((64 * num_envs, width), np.float32) for width in (obs_size, obs_size, 3)]
    rows = [np.ones((num_envs, column.shape[1]), np.float32) for column in memory]
    position = np.arange(num_envs)

    def write() -> None:
        at = (position + 5) % len(memory[0])
        for column, row in zip(memory, rows, strict=True):
            column[at] = row

    return min(_timed(write) for _ in range(TIMES))


def gathered_sample_s(obs_size: int, rows: int = ROWS) -> float:
    """Seconds to draw a batch of transitions from arrays."""
    rng = np.random.default_rng(0)
    memory = np.zeros((64 * rows, 2 * obs_size + 3), np.float32)

    def draw() -> None:
        memory[rng.integers(0, len(memory), rows)]

    return min(_timed(draw) for _ in range(TIMES))


def _timed(call: Callable[[], object]) -> float:
    calls, begin = 0, process_time()
    while process_time() - begin < MEASURED_S / TIMES:
        call()
        calls += 1
    return (process_time() - begin) / calls
