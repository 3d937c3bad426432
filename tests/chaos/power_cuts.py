"""Run as a process: cuts the power of a recorded run at random moments, and continues what is left.

Takes a folder, an algorithm and the number of cuts. Prints one JSON object: how many runs continued
from each step (-1: the run folder had not been made), and which did not end like the whole run.
"""

from __future__ import annotations

import json
import random
import shutil
import sys
from collections import Counter
from pathlib import Path

from briskrl.training.loop import train
from briskrl.training.storage.checkpoint import list_checkpoints
from tests.chaos.run_states import SAVES, STEPS, SaveAt, config, fingerprint, resumes_to, saved_step
from tests.training.storage.lossy_disk import Mark, RecordedDisk


def first_step(run_dir: Path, finished: int) -> int:
    """The step from which the run will continue; at least the last one that was saved."""
    if not (run_dir / "config.toml").exists():
        assert finished == 0
        return -1
    if not list_checkpoints(run_dir / "checkpoints"):
        assert finished == 0
        return 0
    step = saved_step(run_dir)
    assert step in (
        finished,
        min([at for at in (*SAVES, STEPS) if at > finished], default=finished),
    )
    return step


def main(root: Path, preset: str, cuts: int) -> None:
    (root / "disk").mkdir()
    disk = RecordedDisk(root / "disk")
    with disk.recording():
        train(config(disk.path / "run", preset), hooks=[SaveAt(SAVES, done=disk.mark)])
    whole = fingerprint(disk.path / "run")
    disk.whole(root / "copy")
    assert fingerprint(root / "copy" / "run") == whole, "the recording misses operations"
    rng = random.Random(preset)
    steps: Counter[int] = Counter()
    wrong = []
    for cut in range(cuts):
        moment, folder = rng.randrange(len(disk.operations) + 1), root / str(cut)
        disk.after_power_cut(folder, moment, rng)
        marks = [op.value for op in disk.operations[:moment] if isinstance(op, Mark)]
        step = first_step(folder / "run", max(marks, default=0))
        steps[step] += 1
        if step >= 0 and not resumes_to(folder / "run", whole):
            wrong.append(cut)
        shutil.rmtree(folder)
    operations = len(disk.operations)
    sys.stdout.write(json.dumps({"steps": steps, "wrong": wrong, "operations": operations}))


if __name__ == "__main__":
    main(Path(sys.argv[1]), sys.argv[2], int(sys.argv[3]))
