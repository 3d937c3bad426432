"""Run as a process: trains, and copies the run folder before every file operation of the last save.

The copies are what a kill at these moments would have left.
"""

from __future__ import annotations

import shutil
import sys
from pathlib import Path

from briskrl.training.loop import train
from tests.training.runs import small_config

STEPS = 400
EVENTS = ("open", "os.", "shutil.")


class Snapshots:
    def __init__(self, run_dir: Path, copies: Path) -> None:
        self.run_dir, self.copies = run_dir, copies
        self.armed = False
        self.taken = 0

    def arm(self, recorder) -> None:
        """Called between iterations, after the regular checkpoints."""
        self.armed = recorder.trainer.counters.env_steps >= STEPS

    def audit(self, event: str, args: tuple[object, ...]) -> None:
        if not self.armed or not event.startswith(EVENTS):
            return
        if not args or not str(args[0]).startswith(str(self.run_dir)):
            return
        # Copying is made of file operations, too.
        self.armed = False
        shutil.copytree(self.run_dir, self.copies / f"{self.taken:03d}")
        self.taken += 1
        self.armed = True


def main(run_dir: Path, copies: Path) -> None:
    snapshots = Snapshots(run_dir, copies)
    sys.addaudithook(snapshots.audit)
    config = small_config(run_dir, steps=STEPS, checkpoint_steps=160, warmup=False)
    train(config, hooks=[snapshots.arm])
    snapshots.armed = False


if __name__ == "__main__":
    main(Path(sys.argv[1]), Path(sys.argv[2]))
