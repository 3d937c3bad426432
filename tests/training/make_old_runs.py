"""Archive short runs of this version, which later versions must load and resume.

    python -m tests.training.make_old_runs 0.1.0

Every archive of the first set gives the settings of one run. Done once per release; the archives
are then never changed.
"""

from __future__ import annotations

import json
import shutil
import sys
import tarfile
import tempfile
from dataclasses import replace
from pathlib import Path

from briskrl.training.loop import resume, train
from briskrl.training.resolve import load_config

FOLDER = Path(__file__).parent / "old_runs"
FIRST = FOLDER / "58f761c"
"""Runs of the commit of this name, before the first release."""
COUNTERS = ("env_steps", "episodes", "updates")


def archive_run(first: Path, target: Path) -> None:
    """Train what the archive `first` trained, and pack the run and what it reaches."""
    with tempfile.TemporaryDirectory() as place:
        old, run, reached = (Path(place) / name for name in ("old", "run", "reached"))
        with tarfile.open(first) as archive:
            archive.extractall(old, filter="data")
        config = load_config(old / "run" / "config.toml")
        assert config.steps is not None
        train(replace(config, run_dir=str(run)))
        (run / "lock").unlink()
        with tarfile.open(target, "w:gz") as archive:
            archive.add(run, "run")
            result = resume(shutil.copytree(run, Path(place) / "longer"), steps=2 * config.steps)
            reached.mkdir()
            counters = {name: getattr(result, name) for name in COUNTERS}
            (reached / "counters.json").write_text(json.dumps(counters))
            shutil.copy(Path(result.run_dir) / "policy" / "model.safetensors", reached)
            archive.add(reached, "reached")


def main(version: str) -> None:
    (FOLDER / version).mkdir()
    for first in sorted(FIRST.glob("*.tar.gz")):
        archive_run(first, FOLDER / version / first.name)


if __name__ == "__main__":
    main(sys.argv[1])
