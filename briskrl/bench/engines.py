"""`brisk bench engines`: the fused engine compared with torch, and two threads with one.

Updates are measured alone on a fixed batch; training is measured as whole trainers. All variants of
a comparison alternate in one process. Engines are compared by CPU time, threads by wall time: first
with the machine as it is, alternating with matrix products on one and two cores, then while other
processes keep every core busy.
"""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, replace
from time import perf_counter, process_time
from typing import TYPE_CHECKING, Any

from briskrl.bench.command import BenchCommand, Seconds, Seed, Slices
from briskrl.bench.compare import PairedComparison, Slice
from briskrl.training.config import TrainConfig

if TYPE_CHECKING:
    from briskrl.algos.dqn.agent import DQN
    from briskrl.algos.dqn.config import DQNConfig
    from briskrl.fused.calibration.timing import Work
    from briskrl.training.trainer import Trainer

BATCHES = (64, 512)
UPDATES = 8
"""Updates per call: the default number for 256 environments."""
DQN_ON_SNAKE = TrainConfig(env="snake", algo="dqn")
PPO_ON_CARTPOLE = TrainConfig(env="cartpole", algo="ppo", num_envs=1024)
PRODUCT, PRODUCTS = (64, 128, 128), 500
"""Matrix product that measures the cores, and products per call: about ten milliseconds."""

DESCRIPTION = """\
The fused engine compared with torch, and two threads of it compared with one.

  update.SIZE    one DQN update of an 11-128-128-3 network with batches of that size
  dqn, ppo       whole training: DQN on Snake, PPO on the compiled CartPole (1024 x 32, minibatches
                 of 4096, 4 epochs)
  dqn_overlap    DQN with --overlap compared with one thread
  ppo_threads    PPO with --threads 2 compared with one thread
  busy_ratio     the same while other processes keep every core busy

The variants alternate in one process; figures are medians over the slices. Engines are compared by
CPU time, threads by wall time: measure threads on an idle machine."""

EXAMPLES = """\
examples:
  brisk bench engines
  brisk bench engines --slices 25 --json"""


@dataclass(frozen=True, slots=True)
class EnginesBench:
    """Settings of `brisk bench engines`."""

    slices: Slices = 9
    """Slices of each variant per comparison; the figures are medians over them."""
    seconds: Seconds = 0.5
    """Seconds per slice."""
    seed: Seed = 0
    """Seed of environments and networks."""


@dataclass(frozen=True, slots=True)
class UpdateFigures:
    """One DQN update of an 11-128-128-3 network."""

    ratio: float
    """CPU time of torch over that of the fused engine."""
    fused_us: float
    torch_us: float
    fused_gflops: float
    machine_fraction: float
    """Relative to the fastest matrix product of the machine."""


@dataclass(frozen=True, slots=True)
class TrainingFigures:
    """Whole training loops."""

    ratio: float
    """Steps per CPU second, fused over torch."""
    fused_steps_per_cpu_s: float
    torch_steps_per_cpu_s: float


@dataclass(frozen=True, slots=True)
class ThreadFigures:
    """Two threads compared with one, in steps per second of wall time."""

    idle_ratio: float
    """With the machine as it is, which should be idle."""
    busy_ratio: float
    """While other processes keep every core busy."""
    cores_ratio: float
    """Speedup of matrix products by a second core in the same turns as `idle_ratio`: below 2 if
    other processes use part of it."""
    steps_per_s: float
    """Of two threads, with the machine as it is."""


@dataclass(frozen=True, slots=True)
class EngineFigures:
    """Medians over the slices."""

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
    from briskrl.bench.snake_dqn import snake_dqn
    from briskrl.training.device import TorchSettings
    from briskrl.training.machine_profile import load_profile, quick_profile

    variants = {engine: _updates(engine, batch_size, bench.seed) for engine in ("fused", "torch")}
    arithmetic = TorchSettings(1)
    comparison = PairedComparison(
        **{name: _call_rate(call, bench.seconds) for name, call in variants.items()}
    )
    comparison.take_turns(bench.slices, warm_up=True)
    arithmetic.restore()
    fused_s, torch_s = (1 / comparison.median(name) / UPDATES for name in ("fused", "torch"))
    config = snake_dqn(batch_size=batch_size)
    flops = _dqn(config, "fused", bench.seed).flops(256).per_update
    machine = (load_profile() or quick_profile()).calibration
    return UpdateFigures(
        ratio=comparison.median_ratio("fused", "torch"),
        fused_us=fused_s * 1e6,
        torch_us=torch_s * 1e6,
        fused_gflops=flops / fused_s / 1e9,
        machine_fraction=flops / fused_s / 1e9 / machine.gflops,
    )


def _dqn(config: DQNConfig, engine: Any, seed: int) -> DQN:
    import numpy as np
    import torch

    from briskrl.algos.dqn.agent import DQN
    from briskrl.core.rng import Streams
    from briskrl.core.spec import ArraySpec, DiscreteSpec, EnvSpec
    from briskrl.nets.compute import Compute

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
    import numpy as np

    from briskrl.bench.snake_dqn import snake_dqn
    from briskrl.core.counters import Counters
    from briskrl.core.types import Batch

    config = snake_dqn(batch_size=batch_size)
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


def _call_rate(call: Callable[[], object], seconds: float) -> Slice:
    """A slice of about `seconds` of CPU time; returns calls per CPU second."""

    def run_slice() -> float:
        begin, calls = process_time(), 0
        while process_time() - begin < seconds:
            call()
            calls += 1
        return calls / (process_time() - begin)

    return run_slice


def _measure_training(config: TrainConfig, bench: EnginesBench) -> TrainingFigures:
    changes = {"fused": {"engine": "fused"}, "torch": {"engine": "torch"}}
    rates = _compare_trainers(config, changes, bench, process_time)
    return TrainingFigures(
        ratio=rates.median_ratio("fused", "torch"),
        fused_steps_per_cpu_s=rates.median("fused"),
        torch_steps_per_cpu_s=rates.median("torch"),
    )


def _measure_threads(
    config: TrainConfig, change: Mapping[str, object], bench: EnginesBench
) -> ThreadFigures:
    from briskrl.fused.calibration.gemm_rates import fused_gemm, two_thread_gemm

    config = replace(config, engine="fused")
    changes: dict[str, Mapping[str, object]] = {"one": {}, "two": change}
    cores = {
        "core": _product_rate(fused_gemm(PRODUCT), bench.seconds / 4),
        "cores": _product_rate(two_thread_gemm(PRODUCT), bench.seconds / 4),
    }
    idle = _compare_trainers(config, changes, bench, perf_counter, cores)
    with busy_cores():
        busy = _compare_trainers(config, changes, bench, perf_counter)
    return ThreadFigures(
        idle_ratio=idle.median_ratio("two", "one"),
        busy_ratio=busy.median_ratio("two", "one"),
        cores_ratio=2 * idle.median_ratio("cores", "core"),
        steps_per_s=idle.median("two"),
    )


def _compare_trainers(
    config: TrainConfig,
    changes: Mapping[str, Mapping[str, object]],
    bench: EnginesBench,
    clock: Callable[[], float],
    others: Mapping[str, Slice] | None = None,
) -> PairedComparison:
    """Steps per second by `clock` of trainers that differ in some settings, and other slices."""
    from briskrl.training.resolve import complete
    from briskrl.training.trainer import Trainer
    from briskrl.training.warmup import warm_up

    with ExitStack() as stack:
        slices: dict[str, Slice] = {}
        for name, change in changes.items():
            trainer = Trainer(complete(replace(config, seed=bench.seed, **change)))  # type: ignore[arg-type]
            stack.callback(trainer.close)
            warm_up(trainer)
            while trainer.counters.updates == 0:
                trainer.iterate()
            slices[name] = _training_rate(trainer, bench.seconds, clock)
        comparison = PairedComparison(**slices, **(others or {}))
        comparison.take_turns(bench.slices, warm_up=True)
        return comparison


def _training_rate(trainer: Trainer, seconds: float, clock: Callable[[], float]) -> Slice:
    """A slice of about `seconds` that ends with an update; returns steps per second."""

    def run_slice() -> float:
        begin, first, updates = clock(), trainer.counters.env_steps, trainer.counters.updates
        while clock() - begin < seconds or trainer.counters.updates == updates:
            updates = trainer.counters.updates
            trainer.iterate()
        return (trainer.counters.env_steps - first) / (clock() - begin)

    return run_slice


def _product_rate(work: Work, seconds: float) -> Slice:
    """A slice of about `seconds`; returns products per second and thread."""

    def run_slice() -> float:
        begin, done = perf_counter(), 0
        while perf_counter() - begin < seconds:
            work(PRODUCTS)
            done += PRODUCTS
        return done / (perf_counter() - begin)

    return run_slice


_SPIN = """
import os, sys
if len(sys.argv) > 1:
    os.sched_setaffinity(0, {int(sys.argv[1])})
while True:
    pass
"""


@contextmanager
def busy_cores() -> Iterator[None]:
    """Keep every core busy with a process of its own, pinned to it where the system allows.

    Unpinned processes are moved between cores by the scheduler, which would leave the measured
    process a varying part of a core.
    """
    if hasattr(os, "sched_getaffinity"):
        arguments = [[str(core)] for core in sorted(os.sched_getaffinity(0))]
    else:
        arguments = [[] for _ in range(os.cpu_count() or 1)]
    spinners = [subprocess.Popen([sys.executable, "-c", _SPIN, *words]) for words in arguments]
    try:
        yield
    finally:
        for spinner in spinners:
            spinner.kill()
            spinner.wait()


COMMAND = BenchCommand(
    DESCRIPTION,
    EXAMPLES,
    EnginesBench,
    measure_engines,
    lambda bench: 16 * (bench.slices + 1) * bench.seconds + 20,
)
