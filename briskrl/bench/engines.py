"""`brisk bench engines`: the fused engine against torch, and two threads against one.

Updates are measured alone, on a batch that stays; training is measured as whole sessions. All sides
of a comparison take turns in one process. Engines are compared by CPU time, threads by wall time:
first with the machine as it is, in turns with what its cores can do at that moment, then while
other processes keep every core busy.
"""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, replace
from time import perf_counter, process_time
from typing import Any

import numpy as np
import torch

from briskrl.algos.dqn.agent import DQN
from briskrl.algos.dqn.config import DQNConfig
from briskrl.bench.config import EnginesBench
from briskrl.core.counters import Counters
from briskrl.core.rng import Streams
from briskrl.core.spec import ArraySpec, DiscreteSpec, EnvSpec
from briskrl.core.types import Batch
from briskrl.fused.calibration.gemm_rates import fused_gemm, two_thread_gemm
from briskrl.fused.calibration.timing import Work
from briskrl.nets.compute import Compute
from briskrl.training.config import TrainConfig
from briskrl.training.device import Arithmetic
from briskrl.training.machine_profile import load_profile, quick_profile
from briskrl.training.resolve import complete
from briskrl.training.trainer import Trainer
from briskrl.training.warmup import warm_up

BATCHES = (64, 512)
UPDATES = 8
"""Updates per call, as many as 256 environments earn by default."""
DQN_ON_SNAKE = TrainConfig(env="snake", algo="dqn")
PPO_ON_CARTPOLE = TrainConfig(env="cartpole", algo="ppo", num_envs=1024)
PRODUCT, PRODUCTS = (64, 128, 128), 500
"""What cores are compared by, and how many at a time: some ten milliseconds."""


@dataclass(frozen=True, slots=True)
class UpdateFigures:
    """One DQN update of an 11-128-128-3 network."""

    ratio: float
    """Torch's CPU time over the fused engine's."""
    fused_us: float
    torch_us: float
    fused_gflops: float
    machine_fraction: float
    """Of the machine's best product."""


@dataclass(frozen=True, slots=True)
class TrainingFigures:
    """Whole training loops."""

    ratio: float
    """Steps per CPU second, fused over torch."""
    fused_steps_per_cpu_s: float
    torch_steps_per_cpu_s: float


@dataclass(frozen=True, slots=True)
class ThreadFigures:
    """Two threads against one, steps per second of wall time."""

    idle_ratio: float
    """With the machine as it is; it must be idle for this to mean anything."""
    busy_ratio: float
    """While other processes keep every core busy."""
    cores_ratio: float
    """What two cores gave instead of one in the same turns as `idle_ratio`, for products of
    matrices alone: others on a shared machine may take a part of it."""
    steps_per_s: float
    """Of two threads, with the machine as it is."""


@dataclass(frozen=True, slots=True)
class EngineFigures:
    """Medians over the turns."""

    update: dict[str, UpdateFigures]
    """By batch size."""
    dqn: TrainingFigures
    ppo: TrainingFigures
    dqn_overlap: ThreadFigures
    ppo_threads: ThreadFigures
    slices: int


def measure_engines(bench: EnginesBench) -> EngineFigures:
    """Measure one comparison after the other."""
    return EngineFigures(
        update={str(size): _measure_update(size, bench) for size in BATCHES},
        dqn=_measure_training(DQN_ON_SNAKE, bench),
        ppo=_measure_training(PPO_ON_CARTPOLE, bench),
        dqn_overlap=_measure_threads(DQN_ON_SNAKE, {"overlap": True}, bench),
        ppo_threads=_measure_threads(PPO_ON_CARTPOLE, {"threads": 2}, bench),
        slices=bench.slices,
    )


def _measure_update(batch_size: int, bench: EnginesBench) -> UpdateFigures:
    sides = {engine: _updates(engine, batch_size, bench.seed) for engine in ("fused", "torch")}
    arithmetic = Arithmetic(1)
    cost = _in_turns({name: _timed(side, bench.seconds) for name, side in sides.items()}, bench)
    arithmetic.restore()
    fused, reference = (1 / float(np.median(cost[name])) / UPDATES for name in ("fused", "torch"))
    config = DQNConfig(batch_size=batch_size)
    flops = _dqn(config, "fused", bench.seed).flops(256).per_update
    machine = (load_profile() or quick_profile()).calibration
    return UpdateFigures(
        ratio=float(np.median(np.divide(cost["fused"], cost["torch"]))),
        fused_us=fused * 1e6,
        torch_us=reference * 1e6,
        fused_gflops=flops / fused / 1e9,
        machine_fraction=flops / fused / 1e9 / machine.gflops,
    )


def _dqn(config: DQNConfig, engine: Any, seed: int) -> DQN:
    spec = EnvSpec(
        obs=ArraySpec.of((11,), np.float32, 0, 1),
        action=DiscreteSpec(3),
        max_steps=None,
        has_mask=False,
        exact_state=True,
    )
    return DQN(config, spec, Streams(seed), Compute(torch.device("cpu"), engine=engine))


def _updates(engine: str, batch_size: int, seed: int) -> Callable[[], object]:
    """A call that does UPDATES updates on a batch of random transitions."""
    config = DQNConfig(batch_size=batch_size)
    algo = _dqn(config, engine, seed)
    rng = np.random.default_rng(seed)
    batch = Batch(
        obs=rng.random((UPDATES, batch_size, 11), np.float32),
        action=rng.integers(0, 3, (UPDATES, batch_size)),
        reward=rng.standard_normal((UPDATES, batch_size)).astype(np.float32),
        next_obs=rng.random((UPDATES, batch_size, 11), np.float32),
        discount=np.full((UPDATES, batch_size), config.gamma, np.float32),
        weight=np.ones((UPDATES, batch_size), np.float32),
        index=np.zeros((UPDATES, batch_size), np.int64),
    )
    counters = Counters()
    return lambda: algo.update(batch, UPDATES, counters)


def _timed(call: Callable[[], object], seconds: float) -> Callable[[], float]:
    """A turn of about so many CPU seconds; returns calls per CPU second."""

    def turn() -> float:
        begin, calls = process_time(), 0
        while process_time() - begin < seconds:
            call()
            calls += 1
        return calls / (process_time() - begin)

    return turn


def _measure_training(config: TrainConfig, bench: EnginesBench) -> TrainingFigures:
    changes = {"fused": {"engine": "fused"}, "torch": {"engine": "torch"}}
    rates = _sessions_in_turns(config, changes, bench, process_time)
    return TrainingFigures(
        ratio=float(np.median(np.divide(rates["fused"], rates["torch"]))),
        fused_steps_per_cpu_s=float(np.median(rates["fused"])),
        torch_steps_per_cpu_s=float(np.median(rates["torch"])),
    )


def _measure_threads(
    config: TrainConfig, change: Mapping[str, object], bench: EnginesBench
) -> ThreadFigures:
    config = replace(config, engine="fused")
    changes: dict[str, Mapping[str, object]] = {"one": {}, "two": change}
    cores = {
        "core": _multiplying(fused_gemm(PRODUCT), bench.seconds / 4),
        "cores": _multiplying(two_thread_gemm(PRODUCT), bench.seconds / 4),
    }
    idle = _sessions_in_turns(config, changes, bench, perf_counter, cores)
    with _busy_cores():
        busy = _sessions_in_turns(config, changes, bench, perf_counter)
    return ThreadFigures(
        idle_ratio=float(np.median(np.divide(idle["two"], idle["one"]))),
        busy_ratio=float(np.median(np.divide(busy["two"], busy["one"]))),
        cores_ratio=2 * float(np.median(np.divide(idle["cores"], idle["core"]))),
        steps_per_s=float(np.median(idle["two"])),
    )


def _sessions_in_turns(
    config: TrainConfig,
    changes: Mapping[str, Mapping[str, object]],
    bench: EnginesBench,
    counters: Callable[[], float],
    others: Mapping[str, Callable[[], float]] | None = None,
) -> dict[str, list[float]]:
    """Steps per second, by a clock, of sessions that differ in some settings; and others' turns."""
    with ExitStack() as stack:
        turns = {}
        for name, change in changes.items():
            trainer = Trainer(complete(replace(config, seed=bench.seed, **change)))  # type: ignore[arg-type]
            stack.callback(trainer.close)
            warm_up(trainer)
            while trainer.counters.updates == 0:
                trainer.iterate()
            turns[name] = _training(trainer, bench.seconds, counters)
        return _in_turns({**turns, **(others or {})}, bench)


def _training(
    trainer: Trainer, seconds: float, counters: Callable[[], float]
) -> Callable[[], float]:
    """A turn of about so many seconds that ends with an update; returns steps per second."""

    def turn() -> float:
        begin, first, updates = counters(), trainer.counters.env_steps, trainer.counters.updates
        while counters() - begin < seconds or trainer.counters.updates == updates:
            updates = trainer.counters.updates
            trainer.iterate()
        return (trainer.counters.env_steps - first) / (counters() - begin)

    return turn


def _multiplying(work: Work, seconds: float) -> Callable[[], float]:
    """A turn of about so many seconds; returns products per second and thread."""

    def turn() -> float:
        begin, done = perf_counter(), 0
        while perf_counter() - begin < seconds:
            work(PRODUCTS)
            done += PRODUCTS
        return done / (perf_counter() - begin)

    return turn


def _in_turns(
    sides: Mapping[str, Callable[[], float]], bench: EnginesBench
) -> dict[str, list[float]]:
    """What every side's turns return, after one turn each that does not count."""
    results: dict[str, list[float]] = {name: [] for name in sides}
    for number in range(bench.slices + 1):
        for name, turn in sides.items():
            result = turn()
            if number:
                results[name].append(result)
    return results


_BURN = """
import os, sys
if len(sys.argv) > 1:
    os.sched_setaffinity(0, {int(sys.argv[1])})
while True:
    pass
"""


@contextmanager
def _busy_cores() -> Iterator[None]:
    """Keep every core busy with a process of its own.

    Each stays on its core where the system can do that. Free to move, they are carried from core to
    core by what is measured, and how much of a core that gets is then a matter of chance.
    """
    if hasattr(os, "sched_getaffinity"):
        places = [[str(core)] for core in sorted(os.sched_getaffinity(0))]
    else:
        places = [[] for _ in range(os.cpu_count() or 1)]
    burners = [subprocess.Popen([sys.executable, "-c", _BURN, *place]) for place in places]
    try:
        yield
    finally:
        for burner in burners:
            burner.kill()
            burner.wait()
