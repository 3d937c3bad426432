"""Cost of the phase timer, which is always on, in a DQN run on Snake.

    python benchmarks/phase_timer_overhead.py

The cost of one phase (two clock readings, sums, recent calls) is measured alone. Multiplied by the
number of phases in a training loop and divided by its CPU time it gives the share. This is an upper
bound, because the collector needs only five clock readings for four phases.
"""

from __future__ import annotations

import json
from contextlib import closing
from time import process_time

from briskrl.core.phase import Phase, PhaseTimer
from briskrl.doctor.examination import run_until_learning
from briskrl.doctor.paired_turns import take_turn
from briskrl.doctor.train_loop import TrainLoop
from briskrl.training.config import TrainConfig
from briskrl.training.resolve import complete

ENTRIES = 100_000
ROUNDS = 9
TURN_S = 0.5


def phase_ns() -> float:
    """Nanoseconds to enter and leave a phase, fastest of several rounds."""
    timer = PhaseTimer()
    span = timer[Phase.ENV]
    found = []
    for _ in range(ROUNDS):
        begin = process_time()
        for _ in range(ENTRIES):
            with span:
                pass
        found.append(process_time() - begin)
    return 1e9 * min(found) / ENTRIES


def main() -> None:
    """Measure and print one JSON object."""
    ns = phase_ns()
    with closing(TrainLoop(complete(TrainConfig(env="snake", algo="dqn")))) as loop:
        run_until_learning(loop)
        turns, entries = [], 0
        for _ in range(ROUNDS):
            loop.timer.reset()
            turns.append(take_turn(loop, TURN_S))
            entries += sum(stats.calls for stats in loop.timer.stats().values())
    iterations = sum(turn.iterations for turn in turns)
    cpu_s = sum(turn.cpu_s for turn in turns)
    share = ns * 1e-9 * entries / cpu_s
    print(
        json.dumps(
            {
                "phase_ns": round(ns),
                "phases_per_iteration": round(entries / iterations, 2),
                "iteration_us": round(1e6 * cpu_s / iterations, 1),
                "share": round(share, 5),
            }
        )
    )


if __name__ == "__main__":
    main()
