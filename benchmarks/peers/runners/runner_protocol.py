"""How a guest takes its orders: rounds to train come in line by line, what they cost goes out.

A round is a rollout and all that is learnt from it. Whoever gives the orders measures in turns;
between two turns a guest sleeps. It leaves when the orders end.
"""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Callable
from time import perf_counter, process_time
from typing import Any

# Whatever a library prints must not be taken for an answer.
_ANSWERS = os.fdopen(os.dup(1), "w")
os.dup2(2, 1)


def settings() -> dict[str, Any]:
    """What to train, from the command line."""
    found: dict[str, Any] = json.loads(sys.argv[1])
    return found


def serve(
    version: str,
    train: Callable[[int], float | None],
    *,
    rollout: int,
    note: Callable[[], str] = str,
) -> None:
    """Train one round, tell what starting has cost, then train as ordered.

    Args:
        version: The library and its version.
        train: Trains so many rounds; returns the mean return of the episodes that ended, if known.
        rollout: Transitions of a round.
        note: Gives a word about how it trains, after the first round.
    """
    train(1)
    _tell({"version": version, "start_cpu_s": process_time(), "note": note()})
    for order in sys.stdin:
        rounds = int(order)
        wall, cpu = perf_counter(), process_time()
        mean_return = train(rounds)
        cpu_s, wall_s = process_time() - cpu, perf_counter() - wall
        _tell(
            {
                "steps": rounds * rollout,
                "cpu_s": cpu_s,
                "wall_s": wall_s,
                "mean_return": mean_return,
            }
        )
    # Libraries may have threads that would keep the process.
    os._exit(0)


def _tell(answer: dict[str, Any]) -> None:
    print(json.dumps(answer), file=_ANSWERS, flush=True)
