"""`brisk bench backends`: worker processes against Gymnasium's and against no workers, in turns.

The sides of a comparison take turns in one run, and a figure is the median over neighbouring turns
of their ratio, so that whatever else the machine does falls on both. Rates are by wall time, as
these are about waiting; the CPU time of all processes is told besides, as it depends less on what
else the machine does.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from importlib.metadata import version
from time import perf_counter, process_time
from typing import Any

import gymnasium
import numpy as np
import psutil
from gymnasium.vector import AsyncVectorEnv
from numpy.typing import NDArray

from briskrl.bench import delay_env as paced
from briskrl.bench.config import BackendsBench
from briskrl.bench.stopwatch import per_second
from briskrl.core.cpu import usable_cores
from briskrl.core.types import StepBuffers
from briskrl.envs.base import VecEnv
from briskrl.envs.gym.config import GymConfig
from briskrl.envs.gym.env_factory import EnvFactory
from briskrl.envs.gym.process import GymProcessEnv
from briskrl.envs.gym.sync import GymSyncEnv

WALL, CPU = 0, 1
BUSY_S = 0.002
SLEEP_S = 0.001
SLOW_SHARE, SLOW_FACTOR = 0.1, 10.0
NOTES = (
    "Steps per second by wall time, medians over the turns; ratios are medians over neighbouring "
    "turns. cheap: CartPole-v1. busy: 2 ms of a Python loop per step. first_ready: 1 ms asleep per "
    "step, 10 ms in one step of ten, with as many workers for both ways of waiting. Actions come "
    "from a table."
)

Rates = NDArray[np.float64]
"""(slices, sides, 2): steps per second, by wall and by CPU time."""
Turn = Callable[[float], int]
"""turn(seconds): how many steps were made."""


@dataclass(frozen=True, slots=True)
class BackendFigures:
    """Steps per second of single environments, and ratios of them."""

    cheap_vs_async_vector_env: float
    busy_vs_async_vector_env: float
    busy_vs_sync: float
    first_ready_vs_barrier: float
    cheap_vs_async_vector_env_by_cpu: float
    """Steps per CPU second of trainer and workers together."""
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
    num_envs = bench.num_envs
    cartpole = EnvFactory("CartPole-v1")
    busy = EnvFactory(
        paced.ID,
        GymConfig(packages=(paced.PACKAGE,), env_args={"loops": paced.loops_for(BUSY_S)}),
    )
    cheap_rates, workers = _compare(cartpole, bench)
    busy_rates, _ = _compare(busy, bench)
    min_ready = max(1, num_envs // 2)
    ready_rates, many = _compare_waiting(bench, min_ready)
    cheap, slow, ready = (
        np.median(rates[:, :, WALL], axis=0).tolist()
        for rates in (cheap_rates, busy_rates, ready_rates)
    )
    return BackendFigures(
        cheap_vs_async_vector_env=_ratio(cheap_rates, 0, 1),
        busy_vs_async_vector_env=_ratio(busy_rates, 0, 1),
        busy_vs_sync=_ratio(busy_rates, 0, 2),
        first_ready_vs_barrier=_ratio(ready_rates, 0, 1),
        cheap_vs_async_vector_env_by_cpu=_ratio(cheap_rates, 0, 1, by=CPU),
        busy_vs_async_vector_env_by_cpu=_ratio(busy_rates, 0, 1, by=CPU),
        cheap_process_steps_per_s=cheap[0],
        cheap_async_vector_env_steps_per_s=cheap[1],
        cheap_sync_steps_per_s=cheap[2],
        busy_process_steps_per_s=slow[0],
        busy_async_vector_env_steps_per_s=slow[1],
        busy_sync_steps_per_s=slow[2],
        first_ready_steps_per_s=ready[0],
        barrier_steps_per_s=ready[1],
        num_envs=num_envs,
        workers=workers,
        first_ready_workers=many,
        min_ready=min_ready,
        cores=usable_cores(),
        slices=bench.slices,
        gymnasium_version=version("gymnasium"),
    )


def _compare(recipe: EnvFactory, bench: BackendsBench) -> tuple[Rates, int]:
    """Rates of process, AsyncVectorEnv and sync, and the number of workers."""
    spec, count = recipe.spec(), bench.num_envs
    with ExitStack() as stack:
        # Gymnasium forks; nothing of ours should be there yet to be copied.
        peer = stack.enter_context(_closing(_peer(recipe, count)))
        ours = stack.enter_context(_closing(GymProcessEnv(recipe, count, recipe.config, spec)))
        sync = stack.enter_context(_closing(GymSyncEnv(recipe, count, spec)))
        sides = [
            Side(_barrier(ours, bench.seed), ours.worker_pids),
            Side(_peer_turn(peer, bench.seed), tuple(each.pid for each in peer.processes)),
            Side(_barrier(sync, bench.seed)),
        ]
        return _alternate(sides, bench), ours.num_workers


def _compare_waiting(bench: BackendsBench, min_ready: int) -> tuple[Rates, int]:
    """Rates of first-ready and barrier, and the number of workers of both."""
    config = GymConfig(
        packages=(paced.PACKAGE,),
        env_args={"sleep_s": SLEEP_S, "slow_share": SLOW_SHARE, "slow_factor": SLOW_FACTOR},
    )
    recipe = EnvFactory(paced.ID, config)
    env = GymProcessEnv(recipe, bench.num_envs, config, recipe.spec(), partial=True)
    with _closing(env):
        turns = (_first_ready(env, bench.seed, min_ready), _barrier(env, bench.seed))
        sides = [Side(turn, env.worker_pids) for turn in turns]
        return _alternate(sides, bench), env.num_workers


@dataclass(frozen=True, slots=True)
class Side:
    """One side of a comparison and the processes that work for it."""

    turn: Turn
    pids: tuple[int, ...] = ()

    def rates(self, seconds: float) -> tuple[float, float]:
        """Steps per second of one turn, by wall time and by CPU time of all processes."""
        cpu, wall = self._cpu_s(), perf_counter()
        steps = self.turn(seconds)
        wall, cpu = perf_counter() - wall, self._cpu_s() - cpu
        return per_second(steps, wall), per_second(steps, cpu)

    def _cpu_s(self) -> float:
        workers = (psutil.Process(pid).cpu_times() for pid in self.pids)
        return process_time() + sum(times.user + times.system for times in workers)


def _alternate(sides: list[Side], bench: BackendsBench) -> Rates:
    """Rates of all sides taking turns, after a turn that does not count."""
    for side in sides:
        side.turn(bench.seconds / 4)
    return np.array([[side.rates(bench.seconds) for side in sides] for _ in range(bench.slices)])


def _barrier(env: VecEnv, seed: int) -> Turn:
    """Step all envs and wait for all."""
    out = StepBuffers.allocate(env.env_spec, env.num_envs)
    actions = _actions(env.num_envs, seed)
    env.start(seed, out)

    def turn(seconds: float) -> int:
        count, end = 0, perf_counter() + seconds
        while perf_counter() < end:
            env.step_into(actions[count % len(actions)], out)
            count += 1
        env.drain_stats()
        return count * env.num_envs

    return turn


def _first_ready(env: GymProcessEnv, seed: int, min_ready: int) -> Turn:
    """Step envs again as they are ready."""
    out = StepBuffers.allocate(env.env_spec, env.num_envs)
    actions = _actions(env.num_envs, seed)
    env.start(seed, out)

    def turn(seconds: float) -> int:
        count, end = 0, perf_counter() + seconds
        ids = np.arange(env.num_envs)
        while perf_counter() < end:
            env.send(actions[count % len(actions)][ids], ids)
            ids = env.recv(min_ready, None, out)
            count += len(ids)
        count += len(env.recv(env.num_envs - len(ids), None, out))
        env.drain_stats()
        return count

    return turn


def _peer(recipe: EnvFactory, num_envs: int) -> Any:
    arguments = recipe.config.env_args
    return AsyncVectorEnv([lambda: gymnasium.make(recipe.id, **arguments)] * num_envs)


def _peer_turn(env: Any, seed: int) -> Turn:
    actions = _actions(env.num_envs, seed)
    env.reset(seed=seed)

    def turn(seconds: float) -> int:
        count, end = 0, perf_counter() + seconds
        while perf_counter() < end:
            env.step(actions[count % len(actions)])
            count += 1
        return count * int(env.num_envs)

    return turn


def _actions(num_envs: int, seed: int) -> NDArray[np.int64]:
    return np.random.default_rng(seed).integers(2, size=(256, num_envs))


def _ratio(rates: Rates, above: int, below: int, *, by: int = WALL) -> float:
    return float(np.median(rates[:, above, by] / rates[:, below, by]))


@contextmanager
def _closing(env: Any) -> Iterator[Any]:
    try:
        yield env
    finally:
        env.close()
