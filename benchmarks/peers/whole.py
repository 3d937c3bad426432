"""Whole training loops of PPO on CartPole, ours and other libraries'.

Every side has its own CartPole in the form that its makers would use, the same network, rollout,
minibatches, epochs, loss and optimizer.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from tempfile import TemporaryDirectory

from benchmarks.peers.ppo_settings import WHOLE, runner_settings, whole_config
from benchmarks.peers.processes import LEARNERS, RUNNERS, Sides, measure_sides
from briskrl.bench.config import PeersBench
from briskrl.core.config import to_toml
from briskrl.training.resolve import complete

NOTES = (
    "Each side in its own process, in turns of whole rollouts and the learning from them; medians "
    "over the turns. Each has its own CartPole: ours compiled, JAX's inside its one compiled "
    "program, PufferLib's in C (its episodes end after 200 steps), Gymnasium's one by one with "
    "Tianshou and Sample Factory, which is kept to one process and from collecting ahead. "
    "start_cpu_s is CPU from the start of the process to the end of the first round, ours with "
    "compiled kernels on disk if they are there."
)


def measure_whole(bench: PeersBench) -> Sides:
    """Train with every side in alternating turns; see `measure_sides`."""
    config = complete(whole_config(engine=bench.engine, threads=bench.threads, seed=bench.seed))
    settings = json.dumps(runner_settings(config))
    with TemporaryDirectory(prefix="brisk-bench-") as folder:
        file = Path(folder) / "config.toml"
        file.write_text(to_toml(config))
        script = str(RUNNERS / "briskrl_ppo.py")
        ours = [sys.executable, script, str(file), str(Path(folder) / "run")]
        return measure_sides(ours, LEARNERS, settings, bench, scale=WHOLE, notes=NOTES)
