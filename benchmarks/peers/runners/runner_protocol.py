"""The child's side of `briskrl.bench.process`, without importing briskrl.

A runner reads a number of rounds per line and answers with their cost. A round is a rollout and the
learning from it. Between requests a runner sleeps; it exits when its standard input is closed.
"""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Callable
from time import perf_counter, process_time
from typing import Any

# Output of a library must not be taken for an answer, so standard output becomes standard error.
_ANSWERS = os.fdopen(os.dup(1), "w")
os.dup2(2, 1)


def settings() -> dict[str, Any]:
    """The settings, JSON in the first argument of the script."""
    found: dict[str, Any] = json.loads(sys.argv[1])
    return found


def serve(
    version: str,
    train: Callable[[int], float | None],
    *,
    rollout: int,
    note: Callable[[], str] = str,
) -> None:
    """Train one round, report the cost of the start, then train on request.

    Args:
        version: The library and its version.
        train: Trains a number of rounds; returns the mean return of ended episodes, if known.
        rollout: Transitions per round.
        note: Called after the first round for a remark, such as the engine in use.
    """
    train(1)
    _answer({"version": version, "start_cpu_s": process_time(), "note": note()})
    for request in sys.stdin:
        rounds = int(request)
        wall, cpu = perf_counter(), process_time()
        mean_return = train(rounds)
        cpu_s, wall_s = process_time() - cpu, perf_counter() - wall
        _answer(
            {
                "steps": rounds * rollout,
                "cpu_s": cpu_s,
                "wall_s": wall_s,
                "mean_return": mean_return,
            }
        )
    # Threads of a library would keep the process alive.
    os._exit(0)


def _answer(values: dict[str, Any]) -> None:
    print(json.dumps(values), file=_ANSWERS, flush=True)
