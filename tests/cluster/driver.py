"""Run as a process: trains runs as jobs in a folder, and prints their results as JSON."""

from __future__ import annotations

import json
import sys
from pathlib import Path

from briskrl.cluster.job import JobDone, JobProgress
from briskrl.cluster.local import LocalExecutor
from briskrl.cluster.run_job import Evaluation, RunJob
from tests.cluster.run_configs import long_config


def main(folder: Path, count: int) -> None:
    results = {}
    with LocalExecutor(folder, slots=2) as executor:
        for number in range(count):
            job = RunJob(f"run-{number}", long_config(), Evaluation(episodes=8))
            executor.submit(job)
        while (event := executor.wait()) is not None:
            if isinstance(event, JobProgress):
                write({"training": event.name})
            elif isinstance(event, JobDone):
                results[event.name] = event.result
    write(results)


def write(content: object) -> None:
    sys.stdout.write(json.dumps(content) + "\n")
    sys.stdout.flush()


if __name__ == "__main__":
    main(Path(sys.argv[1]), int(sys.argv[2]))
