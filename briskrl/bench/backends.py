"""`brisk bench backends`: worker processes for Gymnasium environments.

The process backend is compared with Gymnasium's AsyncVectorEnv and with no workers at all. The
sides of a comparison alternate in one run, and ratios are medians over the turns. Rates are by wall
time, because these comparisons are about waiting; rates by the CPU time of all processes are given
too, because they depend less on the load of the machine.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from importlib.metadata import version
from time import perf_counter, process_time
from typing import TYPE_CHECKING, Annotated, Any

from msgspec import Meta

from briskrl.bench.command import BenchCommand, Seconds, Seed, Slices
from briskrl.bench.compare import PairedComparison, median_ratio
from briskrl.bench.stopwatch import per_second
from briskrl.core.cpu import usable_cores

if TYPE_CHECKING:
    from briskrl.core.types import Ints
    from briskrl.envs.base import VecEnv
    from briskrl.envs.gym.env_factory import EnvFactory
    from briskrl.envs.gym.process import GymProcessEnv

BUSY_S = 0.002
SLEEP_S = 0.001
SLOW_SHARE, SLOW_FACTOR = 0.1, 10.0

DESCRIPTION = """\
Gymnasium environments in our worker processes, in Gymnasium's, and without workers.

  cheap_vs_async_vector_env   CartPole: process backend over Gymnasium's AsyncVectorEnv
  busy_vs_async_vector_env    2 ms of Python per step: the same
  busy_vs_sync                2 ms of Python per step: process backend over the sync backend
  first_ready_vs_barrier      steps that sleep 1 ms, one in ten 10 ms: continuing when half of the
                              environments are ready over waiting for all, with equally many workers

The sides alternate in one run; figures are medians over the turns, by wall time, because they are
about waiting. Measure on an idle machine."""

EXAMPLES = """\
examples:
  brisk bench backends
  brisk bench backends --num-envs 64 --slices 25 --json"""

NOTES = (
    "Steps per second by wall time, medians over the turns; ratios are medians over the turns. "
    "cheap: CartPole-v1. busy: 2 ms of a Python loop per step. first_ready: 1 ms of sleep per "
    "step, 10 ms in one step of ten, with equally many workers for both ways of waiting. Actions "
    "come from a table."
)

StepsFor = Callable[[float], int]
"""steps_for(seconds): step for about that time; returns the number of steps."""


@dataclass(frozen=True, slots=True)
class BackendsBench:
    """Settings of `brisk bench backends`."""

    num_envs: Annotated[int, Meta(ge=2, le=1024)] = 16
    """Environments, on every side."""
    slices: Slices = 9
    """Slices of each side per comparison; the figures are medians over them."""
    seconds: Seconds = 1.0
    """Seconds per slice."""
    seed: Seed = 0
    """Seed of environments and actions."""


@dataclass(frozen=True, slots=True)
class BackendFigures:
    """Steps per second of single environments, and their ratios."""

    cheap_vs_async_vector_env: float
    busy_vs_async_vector_env: float
    busy_vs_sync: float
    first_ready_vs_barrier: float
    cheap_vs_async_vector_env_by_cpu: float
    """By the CPU time of trainer and workers together, as is the next one."""
    busy_vs_async_vector_env_by_cpu: float
    cheap_process_steps_per_s: float
    cheap_async_vector_env_steps_per_s: float
    cheap_sync_steps_per_s: float
    busy_process_steps_per_s: float
    busy_async_vector_env_steps_per_s: float
    busy_sync_steps_per_s: float
    first_ready_steps_per_s: float
    barrier_steps_per_s: float
    num_envs: int
    workers: int
    """Worker processes of the process backend."""
    first_ready_workers: int
    min_ready: int
    cores: int
    slices: int
    gymnasium_version: str
    notes: str = NOTES


def measure_backends(bench: BackendsBench) -> BackendFigures:
    """Measure each comparison in alternating slices."""
    from briskrl.bench import delay_env
    from briskrl.envs.gym.config import GymConfig
    from briskrl.envs.gym.env_factory import EnvFactory

    env_args = {"loops": delay_env.loops_for(BUSY_S)}
    delay = EnvFactory(delay_env.ID, GymConfig(packages=(delay_env.PACKAGE,), env_args=env_args))
    cheap, workers = _compare_backends(EnvFactory("CartPole-v1"), bench)
    busy, _ = _compare_backends(delay, bench)
    min_ready = max(1, bench.num_envs // 2)
    ready, ready_workers = _compare_waiting(bench, min_ready)
    return BackendFigures(
        cheap_vs_async_vector_env=cheap.ratio("process", "gymnasium"),
        busy_vs_async_vector_env=busy.ratio("process", "gymnasium"),
        busy_vs_sync=busy.ratio("process", "sync"),
        first_ready_vs_barrier=ready.ratio("first_ready", "barrier"),
        cheap_vs_async_vector_env_by_cpu=cheap.cpu_ratio("process", "gymnasium"),
        busy_vs_async_vector_env_by_cpu=busy.cpu_ratio("process", "gymnasium"),
        cheap_process_steps_per_s=cheap.rate("process"),
        cheap_async_vector_env_steps_per_s=cheap.rate("gymnasium"),
        cheap_sync_steps_per_s=cheap.rate("sync"),
        busy_process_steps_per_s=busy.rate("process"),
        busy_async_vector_env_steps_per_s=busy.rate("gymnasium"),
        busy_sync_steps_per_s=busy.rate("sync"),
        first_ready_steps_per_s=ready.rate("first_ready"),
        barrier_steps_per_s=ready.rate("barrier"),
        num_envs=bench.num_envs,
        workers=workers,
        first_ready_workers=ready_workers,
        min_ready=min_ready,
        cores=usable_cores(),
        slices=bench.slices,
        gymnasium_version=version("gymnasium"),
    )


def _compare_backends(factory: EnvFactory, bench: BackendsBench) -> tuple[_Rates, int]:
    """Rates of process, AsyncVectorEnv and sync, and the number of workers."""
    from briskrl.envs.gym.process import GymProcessEnv
    from briskrl.envs.gym.sync import GymSyncEnv

    spec, count = factory.spec(), bench.num_envs
    with ExitStack() as stack:
        # Gymnasium forks this process, so its environments are created before ours.
        peer = stack.enter_context(_closing(_async_vector_env(factory, count)))
        ours = stack.enter_context(_closing(GymProcessEnv(factory, count, factory.config, spec)))
        sync = stack.enter_context(_closing(GymSyncEnv(factory, count, spec)))
        pids = tuple(each.pid for each in peer.processes)
        rates = _measure(
            bench,
            process=_Side(_step_all(ours, bench.seed), ours.worker_pids),
            gymnasium=_Side(_step_gymnasium(peer, bench.seed), pids),
            sync=_Side(_step_all(sync, bench.seed)),
        )
        return rates, ours.num_workers


def _compare_waiting(bench: BackendsBench, min_ready: int) -> tuple[_Rates, int]:
    """Rates of first-ready and barrier, and the number of workers of both."""
    from briskrl.bench import delay_env
    from briskrl.envs.gym.config import GymConfig
    from briskrl.envs.gym.env_factory import EnvFactory
    from briskrl.envs.gym.process import GymProcessEnv

    config = GymConfig(
        packages=(delay_env.PACKAGE,),
        env_args={"sleep_s": SLEEP_S, "slow_share": SLOW_SHARE, "slow_factor": SLOW_FACTOR},
    )
    factory = EnvFactory(delay_env.ID, config)
    env = GymProcessEnv(factory, bench.num_envs, config, factory.spec(), partial=True)
    with _closing(env):
        rates = _measure(
            bench,
            first_ready=_Side(_step_first_ready(env, bench.seed, min_ready), env.worker_pids),
            barrier=_Side(_step_all(env, bench.seed), env.worker_pids),
        )
        return rates, env.num_workers


@dataclass(slots=True)
class _Side:
    """One side of a comparison and its worker processes."""

    steps_for: StepsFor
    pids: tuple[int, ...] = ()
    cpu_rates: list[float] = field(default_factory=list)
    """Steps per CPU second of all processes, one per slice."""

    def run_slice(self, seconds: float) -> float:
        """Step for about `seconds`; returns steps per second of wall time."""
        cpu, wall = self._cpu_s(), perf_counter()
        steps = self.steps_for(seconds)
        wall, cpu = perf_counter() - wall, self._cpu_s() - cpu
        self.cpu_rates.append(per_second(steps, cpu))
        return per_second(steps, wall)

    def slice_of(self, seconds: float) -> Callable[[], float]:
        return lambda: self.run_slice(seconds)

    def _cpu_s(self) -> float:
        import psutil

        workers = (psutil.Process(pid).cpu_times() for pid in self.pids)
        return process_time() + sum(times.user + times.system for times in workers)


@dataclass(frozen=True, slots=True)
class _Rates:
    """Rates of all sides of a comparison."""

    by_wall: PairedComparison
    by_cpu: dict[str, list[float]]

    def rate(self, name: str) -> float:
        return self.by_wall.median(name)

    def ratio(self, above: str, below: str) -> float:
        return self.by_wall.median_ratio(above, below)

    def cpu_ratio(self, above: str, below: str) -> float:
        return median_ratio(self.by_cpu[above], self.by_cpu[below])


def _measure(bench: BackendsBench, **sides: _Side) -> _Rates:
    """Rates of all sides, after a short slice of each that does not count."""
    for side in sides.values():
        side.steps_for(bench.seconds / 4)
    comparison = PairedComparison(
        **{name: side.slice_of(bench.seconds) for name, side in sides.items()}
    )
    comparison.take_turns(bench.slices)
    return _Rates(comparison, {name: side.cpu_rates for name, side in sides.items()})


def _step_all(env: VecEnv, seed: int) -> StepsFor:
    """Step all environments and wait for all."""
    from briskrl.core.types import StepBuffers

    out = StepBuffers.allocate(env.env_spec, env.num_envs)
    actions = _actions(env.num_envs, seed)
    env.start(seed, out)

    def steps_for(seconds: float) -> int:
        count, end = 0, perf_counter() + seconds
        while perf_counter() < end:
            env.step_into(actions[count % len(actions)], out)
            count += 1
        env.drain_stats()
        return count * env.num_envs

    return steps_for


def _step_first_ready(env: GymProcessEnv, seed: int, min_ready: int) -> StepsFor:
    """Step environments again as soon as `min_ready` of them are ready."""
    import numpy as np

    from briskrl.core.types import StepBuffers

    out = StepBuffers.allocate(env.env_spec, env.num_envs)
    actions = _actions(env.num_envs, seed)
    env.start(seed, out)

    def steps_for(seconds: float) -> int:
        count, end = 0, perf_counter() + seconds
        ids = np.arange(env.num_envs)
        while perf_counter() < end:
            env.send(actions[count % len(actions)][ids], ids)
            ids = env.recv(min_ready, None, out)
            count += len(ids)
        count += len(env.recv(env.num_envs - len(ids), None, out))
        env.drain_stats()
        return count

    return steps_for


def _async_vector_env(factory: EnvFactory, num_envs: int) -> Any:
    import gymnasium
    from gymnasium.vector import AsyncVectorEnv

    arguments = factory.config.env_args
    return AsyncVectorEnv([lambda: gymnasium.make(factory.id, **arguments)] * num_envs)


def _step_gymnasium(env: Any, seed: int) -> StepsFor:
    actions = _actions(env.num_envs, seed)
    env.reset(seed=seed)

    def steps_for(seconds: float) -> int:
        count, end = 0, perf_counter() + seconds
        while perf_counter() < end:
            env.step(actions[count % len(actions)])
            count += 1
        return count * int(env.num_envs)

    return steps_for


def _actions(num_envs: int, seed: int) -> Ints:
    import numpy as np

    return np.random.default_rng(seed).integers(2, size=(256, num_envs))


@contextmanager
def _closing(env: Any) -> Iterator[Any]:
    try:
        yield env
    finally:
        env.close()


COMMAND = BenchCommand(
    DESCRIPTION,
    EXAMPLES,
    BackendsBench,
    measure_backends,
    lambda bench: 8 * (bench.slices + 1) * bench.seconds + 5,
)
