from __future__ import annotations

import os

import numpy as np

from briskrl.memory import chunks
from briskrl.memory.replay import ReplayBuffer
from briskrl.training.storage.checkpoint import Checkpointer, RunState
from tests.memory.reference import Feed, make_spec

NUM_ENVS, ROWS = 8, 10_000


def test_a_save_after_one_percent_of_the_memory_has_changed_writes_less_than_three(
    tmp_path, monkeypatch
):
    # Divided like memories of 64 MiB and more.
    monkeypatch.setattr(chunks, "MIN_BYTES", 0)
    spec = make_spec((91,), np.uint8, mask=False)
    memory = ReplayBuffer(
        spec=spec, num_envs=NUM_ENVS, capacity=NUM_ENVS * ROWS, n_step=1, gamma=0.9
    )
    step = Feed(spec, NUM_ENVS, seed=0, ends=0.0).step()
    for _ in range(ROWS):
        memory.write(*step)
    sizes: list[int] = []
    real = os.write

    def counted(descriptor: int, data) -> int:
        sizes.append(real(descriptor, data))
        return sizes[-1]

    monkeypatch.setattr(os, "write", counted)
    monkeypatch.setattr(os, "fsync", lambda descriptor: None)
    checkpointer = Checkpointer(tmp_path, keep=2)
    written = []
    for number in range(8):
        sizes.clear()
        checkpointer.save(number, RunState({"memory": memory.state()}, {}, memory))
        written.append(sum(sizes))
        for _ in range(ROWS // 100):
            memory.write(*step)
    whole = sum(array.nbytes for array in memory.ring.dense.values())
    # The second checkpoint shares no file with the first, so that one damaged file is not in both.
    assert written[0] >= whole
    assert written[1] >= whole
    assert max(written[2:]) < 0.03 * whole
