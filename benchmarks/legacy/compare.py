"""`brisk bench legacy`: ours and the re-created slow path on the same task, turn by turn.

Each turn of one side is followed by a turn of the other in the same process, and the figures are
medians over the turns, so that whatever else the machine does falls on both.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from time import process_time

import numpy as np
import torch
from numpy.typing import NDArray

from benchmarks.legacy.trainer import (
    LegacyReplay,
    LegacyTrainer,
    Transitions,
    flood_features,
    games_of,
    push_one_by_one,
)
from briskrl.algos.dqn.config import DQNConfig
from briskrl.bench import recorded_play as tapes
from briskrl.bench.config import LegacyBench
from briskrl.bench.env import replay
from briskrl.bench.stopwatch import Stopwatch
from briskrl.bench.train_loop import BenchTrainLoop
from briskrl.core.types import Decision, StepBuffers
from briskrl.envs.snake.config import SnakeConfig
from briskrl.envs.snake.env import SnakeVecEnv
from briskrl.memory.replay import ReplayBuffer
from briskrl.training.config import TrainConfig

Measured = NDArray[np.float64]

NETWORK = DQNConfig(net=(128, 128), batch_size=64)
"""What both loops train; everything else is our default."""
PUSHED_STEPS = 4
"""Vector steps that are written again and again, from a few buffers as a collector has them."""
PUSH_ROUNDS = 1600
"""How often our side writes them per turn, to last long enough for the clock."""
OUR_ROUNDS = 40
"""How often our side replays its tape per turn, for the same reason."""


@dataclass(frozen=True, slots=True)
class LegacyFigures:
    """Medians over the slices; times are CPU times."""

    push_speedup: float
    """Storing one transition of each game: one by one, over one batched write."""
    flood_speedup: float
    """Reachable space of each game: Python searches alone, over our whole step with observation."""
    loop_speedup: float
    """Steps per CPU second: our loop at its default ratio, over the slow one."""
    push_legacy_us: float
    push_ours_us: float
    flood_legacy_us: float
    flood_ours_us: float
    loop_legacy_steps_per_cpu_s: float
    loop_ours_steps_per_cpu_s: float
    loop_legacy_updates_per_transition: float
    loop_ours_updates_per_transition: float
    mean_length: float
    """Mean length of the snakes that the searches were measured on."""
    num_envs: int
    slices: int


def measure_legacy(bench: LegacyBench) -> LegacyFigures:
    """Measure pushing, flood filling and whole training loops, each in alternating slices."""
    torch.set_num_threads(1)
    pushing = _compare_push(bench)
    flooding, mean_length = _compare_flood(bench)
    looping = _compare_loops(bench)
    return LegacyFigures(
        push_speedup=_median_ratio(pushing[:, 0], pushing[:, 1]),
        flood_speedup=_median_ratio(flooding[:, 0], flooding[:, 1]),
        loop_speedup=_median_ratio(looping[:, 1], looping[:, 0]),
        push_legacy_us=1e6 * float(np.median(pushing[:, 0])),
        push_ours_us=1e6 * float(np.median(pushing[:, 1])),
        flood_legacy_us=1e6 * float(np.median(flooding[:, 0])),
        flood_ours_us=1e6 * float(np.median(flooding[:, 1])),
        loop_legacy_steps_per_cpu_s=float(np.median(looping[:, 0])),
        loop_ours_steps_per_cpu_s=float(np.median(looping[:, 1])),
        loop_legacy_updates_per_transition=max(1, bench.num_envs // 4) / bench.num_envs,
        loop_ours_updates_per_transition=NETWORK.ratio,
        mean_length=mean_length,
        num_envs=bench.num_envs,
        slices=bench.slices,
    )


def _median_ratio(above: Measured, below: Measured) -> float:
    return float(np.median(above / below))


def _alternate(slices: int, legacy: Callable[[], float], ours: Callable[[], float]) -> Measured:
    """Figures (slices, 2) of both sides taking turns, after a turn of each that does not count."""
    legacy(), ours()
    return np.array([(legacy(), ours()) for _ in range(slices)])


def _timed(work: Callable[[], object], repeats: int) -> float:
    """CPU seconds of one call."""
    begin = process_time()
    for _ in range(repeats):
        work()
    return (process_time() - begin) / repeats


def _compare_push(bench: LegacyBench) -> Measured:
    """CPU seconds to store one vector step, (slices, 2)."""
    env = SnakeVecEnv(bench.num_envs, config=SnakeConfig(obs="features"))
    steps = _play(env, bench.seed)
    tensors = [_as_tensors(*step) for step in steps]
    replay_memory = LegacyReplay(NETWORK.buffer_size, env.env_spec.obs.size, bench.seed)
    memory = ReplayBuffer(
        spec=env.env_spec,
        num_envs=bench.num_envs,
        capacity=NETWORK.buffer_size,
        n_step=1,
        gamma=NETWORK.gamma,
    )

    def legacy() -> None:
        for step in tensors:
            push_one_by_one(replay_memory, step)

    def ours() -> None:
        for before, decision, after in steps:
            memory.write(before, decision, after)

    return (
        _alternate(bench.slices, lambda: _timed(legacy, 4), lambda: _timed(ours, PUSH_ROUNDS))
        / PUSHED_STEPS
    )


def _play(env: SnakeVecEnv, seed: int) -> list[tuple[StepBuffers, Decision, StepBuffers]]:
    """Vector steps of random play: before, moves, after."""
    rng = np.random.default_rng(seed)
    before = StepBuffers.allocate(env.env_spec, env.num_envs)
    env.start(seed, before)
    steps = []
    for _ in range(PUSHED_STEPS):
        decision = Decision(rng.integers(0, 3, env.num_envs))
        after = StepBuffers.allocate(env.env_spec, env.num_envs)
        env.step_into(decision.action, after)
        steps.append((before, decision, after))
        before = after
    return steps


def _as_tensors(before: StepBuffers, decision: Decision, after: StepBuffers) -> Transitions:
    ended = after.terminated | after.truncated
    next_states = np.where(ended[:, None], after.final_obs, after.obs)
    return Transitions(
        states=torch.from_numpy(before.obs),
        actions=torch.from_numpy(decision.action),
        rewards=torch.from_numpy(after.reward),
        next_states=torch.from_numpy(next_states),
        dones=torch.from_numpy(ended),
    )


def _compare_flood(bench: LegacyBench) -> tuple[Measured, float]:
    """CPU seconds for the reachable space of all games, (slices, 2), and their mean length.

    Ours is the time of a whole step with its rules, rewards and other features; the slow side is
    the searches alone. So the ratio is on the low side.
    """
    config = SnakeConfig(obs="flood")
    tape = tapes.record(config, bench.num_envs, bench.seed)
    env = SnakeVecEnv(bench.num_envs, config=config)
    out = StepBuffers.allocate(env.env_spec, bench.num_envs)
    env.set_state(tape.state)
    env.observe_into(out)
    games = games_of(env)
    searched = flood_features(games, config.height, config.width)
    if not np.array_equal(searched, out.obs[:, 11:14]):
        raise tapes.ReplayError("The searches and our features disagree on reachable space.")

    def ours() -> float:
        watch = Stopwatch()
        for _ in range(OUR_ROUNDS // 4):
            replay(tape, env, out, watch)
        return watch.cpu_s / (OUR_ROUNDS // 4) / len(tape.actions)

    def legacy() -> float:
        return _timed(lambda: flood_features(games, config.height, config.width), 1)

    return _alternate(bench.slices, legacy, ours), tape.mean_length


def _compare_loops(bench: LegacyBench) -> Measured:
    """Steps per CPU second of both training loops, (slices, 2)."""
    config = TrainConfig(
        num_envs=bench.num_envs, seed=bench.seed, algo_config=NETWORK, env_config=SnakeConfig()
    )
    with (
        TemporaryDirectory(prefix="brisk-bench-") as folder,
        open(os.devnull, "w") as console,
        open(Path(folder) / "legacy.csv", "w", newline="") as table,
    ):
        env = SnakeVecEnv(bench.num_envs, config=SnakeConfig())
        trainer = LegacyTrainer(env, NETWORK, bench.seed, console=console, table=table)
        while trainer.replay.size < NETWORK.learning_starts:
            trainer.collect()
        ours = BenchTrainLoop(config, Path(folder) / "ours")
        try:
            ours.prepare()
            return _alternate(
                bench.slices,
                lambda: _legacy_turn(trainer, bench.seconds),
                lambda: ours.turn(bench.seconds),
            )
        finally:
            ours.close()


def _legacy_turn(trainer: LegacyTrainer, cpu_s: float) -> float:
    """Steps per CPU second over about `cpu_s` CPU seconds."""
    begin = now = process_time()
    iterations = 0
    while now - begin < cpu_s:
        trainer.iterate()
        iterations += 1
        now = process_time()
    return iterations * trainer.env.num_envs / (now - begin)
