"""Run as a process: saves checkpoints, metrics and a policy until the disk or its limit is full.

Prints one JSON object: which action failed first and how, and what a second attempt does.
"""

from __future__ import annotations

import json
import resource
import shutil
import subprocess
import sys
from pathlib import Path

import numpy as np

from briskrl.core.errors import StorageError
from briskrl.core.types import State
from briskrl.training.storage.checkpoint import Checkpointer, RunState, read_newest
from briskrl.training.storage.line_files import read_jsonl
from briskrl.training.storage.metrics import MetricLog
from briskrl.training.storage.run_dir import RunDir
from tests.training.storage.fake_memory import ChunkMemory, state_at

BIG = 4_000_000


def checkpoint(folder: Path) -> dict[str, object]:
    checkpointer, memory = Checkpointer(folder, keep=2), ChunkMemory()
    checkpointer.save(1, state_at(1, memory))
    limit()
    state = state_at(2, memory)
    state.states["env"] = State({"grid": np.zeros(BIG, np.uint8)})
    message = failure(lambda: checkpointer.save(2, state))
    free = f"{shutil.disk_usage(folder).free / 1e6:.1f}"
    saved = read_newest(folder)
    retried = checkpointer.save(3, RunState(saved.states, {"env_steps": 3})).name
    found = {"message": message, "left": saved.step, "notes": saved.notes, "retried": retried}
    return {**found, "free": free}


def chunks(folder: Path) -> dict[str, object]:
    checkpointer, memory = Checkpointer(folder, keep=2), ChunkMemory()
    checkpointer.save(1, state_at(1, memory))
    limit()
    memory.arrays["chunk_2"]["obs"] = np.zeros(BIG, np.uint8)
    message = failure(lambda: checkpointer.save(2, state_at(2, memory)))
    saved = read_newest(folder)
    return {"message": message, "left": saved.step, "notes": saved.notes}


def metrics(folder: Path) -> dict[str, object]:
    """Write rows until the disk is full, then more than can wait, then make room."""
    (folder / "filler").write_bytes(bytes(BIG // 10))
    errors: list[str] = []
    log = MetricLog(folder, flush_s=1e9, on_error=lambda error: errors.append(str(error)))
    file = folder / "metrics.jsonl"
    limit()
    number = 0

    def write(rows: int) -> None:
        nonlocal number
        for _ in range(rows):
            log.metrics({"env_steps": number, "text": "x" * 1000})
            number += 1

    while not errors:
        write(1)
    write(int(sys.argv[4]))
    # Rows beyond a batch are not tried one by one.
    calls = len(errors)
    log.flush()
    torn = not file.read_bytes().endswith(b"\n")
    waiting, dropped = log.unwritten, log.dropped
    before = [row["env_steps"] for row in read_jsonl(file)]
    unlimit(folder)
    log.close()
    after = [row["env_steps"] for row in read_jsonl(file)]
    return {
        "message": errors[0],
        "calls": calls,
        "torn": torn,
        "waiting": waiting,
        "dropped": dropped,
        "whole_before": before == list(range(len(before))),
        "number": number,
        "before": len(before),
        "after": after,
    }


def policy(folder: Path) -> dict[str, object]:
    run = RunDir.create(folder / "run", env="e", algo="a", seed=0, config_toml="x = 1\n")
    run.save_policy(State({"w": np.ones(3)}, {"n": 1}), {"kind": "small"})
    limit()
    big = State({"w": np.zeros(BIG, np.uint8)})
    message = failure(lambda: run.save_policy(big, {"kind": "big"}))
    arrays, description = run.load_policy_files()
    return {"message": message, "weights": arrays.arrays["w"].tolist(), "kind": description["kind"]}


def failure(action: object) -> str:
    try:
        action()  # type: ignore[operator]
    except StorageError as error:
        return str(error)
    raise AssertionError("nothing failed")


def limit() -> None:
    if sys.argv[3] == "limit":
        resource.setrlimit(resource.RLIMIT_FSIZE, (500_000, resource.RLIM_INFINITY))


def unlimit(folder: Path) -> None:
    """Make room for everything."""
    if sys.argv[3] == "limit":
        resource.setrlimit(resource.RLIMIT_FSIZE, (resource.RLIM_INFINITY,) * 2)
    else:
        subprocess.run(["mount", "-o", "remount,size=64m", str(folder)], check=True)


if __name__ == "__main__":
    result = globals()[sys.argv[1]](Path(sys.argv[2]))
    sys.stdout.write(json.dumps(result))
