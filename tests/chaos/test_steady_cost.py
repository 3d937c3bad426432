"""Nothing accumulates: late runs of one process and late episodes of one run cost no more."""

from __future__ import annotations

import json
import random
import subprocess
import sys
from collections.abc import Sequence
from contextlib import ExitStack
from pathlib import Path
from statistics import median

import pytest

from briskrl.bench.replica_process import ReplicaProcess
from briskrl.bench.steadiness import one_core
from briskrl.core.config import to_toml
from briskrl.training.config import TrainConfig
from briskrl.training.resolve import complete

ROOT = Path(__file__).parents[2]
RUNS, FLAT_FROM = 50, 10
MAX_GROWTH_MB = 1.0
"""Allocators keep a little more now and then; one leaked buffer per run would be far more."""
EPISODES = 1000
ENVS = 64
STARTS = (0, 4000, 49_000)
SLICES = {"dqn": 8, "ppo": 1}
"""Iterations per slice; the compared parts alternate in slices, so that the machine's changes of
speed affect all alike."""

pytestmark = pytest.mark.chaos


TRAIN_OFTEN = """
import gc, json, sys
from pathlib import Path
import psutil
from briskrl.training.loop import train
from tests.training.runs import small_config
process = psutil.Process()
for number in range(int(sys.argv[3])):
    train(small_config(Path(sys.argv[2]) / str(number), sys.argv[1]))
    # Cycles that wait for the next collection are not a leak.
    gc.collect()
    sample = process.memory_info().rss / 2**20, process.num_threads(), process.num_fds()
    print(json.dumps(sample), flush=True)
"""


@pytest.mark.parametrize("preset", ["dqn", "rainbow", "ppo"])
def test_fifty_runs_in_one_process_do_not_grow(preset: str, tmp_path: Path) -> None:
    # In a process of its own, because the test runner keeps records of what happens in it.
    command = [sys.executable, "-c", TRAIN_OFTEN, preset, str(tmp_path), str(RUNS)]
    done = subprocess.run(command, cwd=ROOT, stdout=subprocess.PIPE, check=True)
    memory, threads, files = zip(*map(json.loads, done.stdout.splitlines()), strict=True)
    growth = median(memory[-10:]) - median(memory[FLAT_FROM : FLAT_FROM + 10])
    print(f"{preset}: {len(memory)} runs, {growth:+.2f} MB from run {FLAT_FROM} on")
    assert len(memory) == RUNS
    assert growth < MAX_GROWTH_MB
    assert len(set(threads[FLAT_FROM:])) == 1
    assert len(set(files[FLAT_FROM:])) == 1


@pytest.mark.parametrize("preset", ["dqn", "ppo"])
def test_late_episodes_cost_as_much_as_early_ones(preset: str, tmp_path: Path) -> None:
    """Episodes of CAGE-2 all have the same length, so that their costs can be compared."""
    config = tmp_path / "config.toml"
    config.write_text(to_toml(complete(steady_config(preset))))
    with one_core(1), ExitStack() as stack:
        replicas = []
        for start in STARTS:
            replica = stack.enter_context(ReplicaProcess(config, tmp_path / f"from-{start}"))
            advance(replica, start)
            replicas.append(replica)
        costs = alternate(replicas, SLICES[preset])
    ratios = [cost / costs[0] for cost in costs[1:]]
    print(f"{preset}: cost of episodes 4-5k and 49-50k: {ratios[0]:.3f}, {ratios[1]:.3f} of 0-1k")
    assert all(0.95 < ratio < 1.05 for ratio in ratios)


def steady_config(preset: str) -> TrainConfig:
    """A run whose every iteration does the same work."""
    if preset == "dqn":
        # Updates from the beginning, on a buffer that is full after a few iterations.
        algo = {"learning_starts": 0, "buffer_size": 2048, "epsilon_start": 0.05}
    else:
        algo = {"update_steps": 15, "minibatch_size": 240}
    return TrainConfig(
        env="cage2",
        env_config={"length": 30},
        algo=preset,
        algo_config=algo,
        engine="fused",
        num_envs=ENVS,
        episodes=10**9,
        checkpoint_seconds=0.0,
        log_seconds=1000.0,
    )


def advance(replica: ReplicaProcess, episodes: int) -> None:
    while replica.progress.episodes < episodes:
        replica.train(20)


def alternate(replicas: Sequence[ReplicaProcess], iterations: int) -> list[float]:
    """CPU seconds of the next episodes of each replica, trained in turns."""
    costs = [0.0] * len(replicas)
    ends = [replica.progress.episodes + EPISODES for replica in replicas]
    order = random.Random(0)
    while replicas[0].progress.episodes < ends[0]:
        turns = list(range(len(replicas)))
        order.shuffle(turns)
        for index in turns:
            costs[index] += replicas[index].train(iterations).cpu_s
    for replica, end in zip(replicas, ends, strict=True):
        assert abs(replica.progress.episodes - end) <= ENVS
    return costs
