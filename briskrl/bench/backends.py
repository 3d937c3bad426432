"""`brisk bench backends`: worker processes against Gymnasium's and against no workers, in turns.

The sides of a comparison take turns in one run, and a figure is the median over neighbouring turns
of their ratio, so that whatever else the machine does falls on both. Rates are by wall time: these
are about waiting.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from importlib.metadata import version
from time import perf_counter
from typing import Any

import gymnasium
import numpy as np
from gymnasium.vector import AsyncVectorEnv
from numpy.typing import NDArray

from briskrl.bench import paced
from briskrl.bench.config import BackendsBench
from briskrl.bench.stopwatch import per_second
from briskrl.core.types import StepBuffers
from briskrl.envs.base import VecEnv
from briskrl.envs.gym.config import GymConfig
from briskrl.envs.gym.pool import num_cores
from briskrl.envs.gym.process import GymProcessEnv
from briskrl.envs.gym.recipe import EnvRecipe
from briskrl.envs.gym.sync import GymSyncEnv

BUSY_S = 0.002
SLEEP_S = 0.001
SLOW_SHARE, SLOW_FACTOR = 0.1, 10.0
NOTES = (
    "Steps per second by wall time, medians over the turns; ratios are medians over neighbouring "
    "turns. cheap: CartPole-v1. busy: 2 ms of a Python loop per step. first_ready: 1 ms asleep per "
    "step, 10 ms in one step of ten, with as many workers for both ways of waiting. Actions come "
    "from a table."
)

Turn = Callable[[float], float]
"""turn(seconds): steps per second."""


@dataclass(frozen=True, slots=True)
class BackendFigures:
    """Steps per second of single environments, and ratios of them."""

    cheap_vs_async_vector_env: float
    busy_vs_async_vector_env: float
    busy_vs_sync: float
    first_ready_vs_barrier: float
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
    cartpole = EnvRecipe("CartPole-v1")
    busy = EnvRecipe(
        paced.ID,
        GymConfig(packages=(paced.PACKAGE,), env_args={"loops": paced.loops_for(BUSY_S)}),
    )
    cheap_rates, workers = _compare(cartpole, bench)
    busy_rates, _ = _compare(busy, bench)
    min_ready = max(1, num_envs // 2)
    ready_rates, many = _compare_waiting(bench, min_ready)
    cheap, slow, ready = (
        np.median(rates, axis=0).tolist() for rates in (cheap_rates, busy_rates, ready_rates)
    )
    return BackendFigures(
        cheap_vs_async_vector_env=_ratio(cheap_rates, 0, 1),
        busy_vs_async_vector_env=_ratio(busy_rates, 0, 1),
        busy_vs_sync=_ratio(busy_rates, 0, 2),
        first_ready_vs_barrier=_ratio(ready_rates, 0, 1),
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
        cores=num_cores(),
        slices=bench.slices,
        gymnasium_version=version("gymnasium"),
    )


def _compare(recipe: EnvRecipe, bench: BackendsBench) -> tuple[NDArray[np.float64], int]:
    """Rates (slices, 3) of process, AsyncVectorEnv and sync, and the number of workers."""
    spec = recipe.spec()
    with ExitStack() as stack:
        # Gymnasium forks; nothing of ours should be there yet to be copied.
        peer = stack.enter_context(_closing(_peer(recipe, bench.num_envs)))
        ours = stack.enter_context(
            _closing(GymProcessEnv(recipe, bench.num_envs, recipe.config, spec))
        )
        sync = stack.enter_context(_closing(GymSyncEnv(recipe, bench.num_envs, spec)))
        turns = [
            _barrier(ours, bench.seed),
            _peer_turn(peer, bench.seed),
            _barrier(sync, bench.seed),
        ]
        return _alternate(turns, bench), ours.num_workers


def _compare_waiting(bench: BackendsBench, min_ready: int) -> tuple[NDArray[np.float64], int]:
    """Rates (slices, 2) of first-ready and barrier, and the number of workers of both."""
    config = GymConfig(
        packages=(paced.PACKAGE,),
        env_args={"sleep_s": SLEEP_S, "slow_share": SLOW_SHARE, "slow_factor": SLOW_FACTOR},
    )
    recipe = EnvRecipe(paced.ID, config)
    env = GymProcessEnv(recipe, bench.num_envs, config, recipe.spec(), partial=True)
    with _closing(env):
        turns = [_first_ready(env, bench.seed, min_ready), _barrier(env, bench.seed)]
        return _alternate(turns, bench), env.num_workers


def _alternate(turns: list[Turn], bench: BackendsBench) -> NDArray[np.float64]:
    """Rates (slices, sides) of all sides taking turns, after a turn that does not count."""
    for turn in turns:
        turn(bench.seconds / 4)
    return np.array([[turn(bench.seconds) for turn in turns] for _ in range(bench.slices)])


def _barrier(env: VecEnv, seed: int) -> Turn:
    """Step all envs and wait for all."""
    num_envs = env.num_envs
    out = StepBuffers.allocate(env.env_spec, num_envs)
    actions = _actions(num_envs, seed)

    def turn(seconds: float) -> float:
        env.start(seed, out)
        count, begin = 0, perf_counter()
        while perf_counter() - begin < seconds:
            env.step_into(actions[count % len(actions)], out)
            count += 1
        rate = per_second(count * num_envs, perf_counter() - begin)
        env.drain_stats()
        return rate

    return turn


def _first_ready(env: GymProcessEnv, seed: int, min_ready: int) -> Turn:
    """Step envs again as they are ready."""
    num_envs = env.num_envs
    out = StepBuffers.allocate(env.env_spec, num_envs)
    actions = _actions(num_envs, seed)
    everybody = np.arange(num_envs)

    def turn(seconds: float) -> float:
        env.start(seed, out)
        env.send(actions[0], everybody)
        count, begin = 0, perf_counter()
        while perf_counter() - begin < seconds:
            ids = env.recv(min_ready, None, out)
            env.send(actions[count % len(actions)][ids], ids)
            count += len(ids)
        rate = per_second(count, perf_counter() - begin)
        env.recv(num_envs, None, out)
        env.drain_stats()
        return rate

    return turn


def _peer(recipe: EnvRecipe, num_envs: int) -> Any:
    arguments = recipe.config.env_args
    return AsyncVectorEnv([lambda: gymnasium.make(recipe.id, **arguments)] * num_envs)


def _peer_turn(env: Any, seed: int) -> Turn:
    actions = _actions(env.num_envs, seed)

    def turn(seconds: float) -> float:
        env.reset(seed=seed)
        count, begin = 0, perf_counter()
        while perf_counter() - begin < seconds:
            env.step(actions[count % len(actions)])
            count += 1
        return per_second(count * env.num_envs, perf_counter() - begin)

    return turn


def _actions(num_envs: int, seed: int) -> NDArray[np.int64]:
    return np.random.default_rng(seed).integers(2, size=(256, num_envs))


def _ratio(rates: NDArray[np.float64], above: int, below: int) -> float:
    return float(np.median(rates[:, above] / rates[:, below]))


@contextmanager
def _closing(env: Any) -> Iterator[Any]:
    try:
        yield env
    finally:
        env.close()
