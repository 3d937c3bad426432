"""Run as a process: jobs on a small disk of their own and beside it; prints the events as JSON.

It mounts the disk, so it needs a mount namespace of its own: run it with `unshare -m`.
"""

from __future__ import annotations

import json
import sys
from dataclasses import asdict
from pathlib import Path

from briskrl.cluster.local import LocalExecutor
from tests.cluster import jobs
from tests.training.disk_runs import mount


def main(root: Path) -> None:
    mount(root / "small", "64k")
    submitted = [
        jobs.FillsDisk("small/full"),
        jobs.Square("other", seconds=0.1),
        jobs.Prints("small/prints"),
        jobs.Square("last"),
    ]
    events = []
    with LocalExecutor(root, slots=1, retries=1) as executor:
        for job in submitted:
            executor.submit(job)
        while (event := executor.wait(60.0)) is not None:
            events.append({"kind": type(event).__name__, **asdict(event)})
    sys.stdout.write(json.dumps(events))


if __name__ == "__main__":
    main(Path(sys.argv[1]))
