"""Run as a process: saves checkpoints in an endless loop until it is killed."""

from __future__ import annotations

import sys
from pathlib import Path

from briskrl.training.storage.checkpoint import Checkpointer, list_checkpoints
from tests.training.storage.fake_memory import ChunkMemory, check_consistent, state_at


def main(folder: Path) -> None:
    checkpointer = Checkpointer(folder, keep=2)
    memory = ChunkMemory()
    step = 0
    if list_checkpoints(folder):
        saved = checkpointer.load()
        checkpointer.load_memory(saved, memory)
        check_consistent(saved, memory)
        step = saved.step
    while True:
        step += 1
        checkpointer.save(step, state_at(step, memory))
        sys.stdout.write(f"{step}\n")
        sys.stdout.flush()


if __name__ == "__main__":
    main(Path(sys.argv[1]))
