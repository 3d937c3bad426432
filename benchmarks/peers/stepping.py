"""Games of CartPole stepped by random actions, ours and other libraries', without any learning."""

from __future__ import annotations

import json
import sys

from benchmarks.peers.ppo_settings import WHOLE
from benchmarks.peers.processes import RUNNERS, STEPPERS, Sides, measure_sides
from briskrl.bench.config import PeersBench
from briskrl.envs.cartpole.config import CartPoleConfig

NOTES = (
    "Each side in its own process, in turns of rounds of steps with the same random actions. "
    "EnvPool's games in C++ go through its own queues and threads, ours are one compiled call."
)


def measure_stepping(bench: PeersBench) -> Sides:
    """Step with every side in alternating turns; see `measure_sides`."""
    settings = {
        "num_envs": WHOLE.num_envs,
        "update_steps": WHOLE.update_steps,
        "max_steps": CartPoleConfig().max_steps,
        "seed": bench.seed,
        "threads": bench.threads,
    }
    words = json.dumps(settings)
    ours = [sys.executable, str(RUNNERS / "briskrl_steps.py"), words]
    return measure_sides(ours, STEPPERS, words, bench, scale=None, notes=NOTES)
