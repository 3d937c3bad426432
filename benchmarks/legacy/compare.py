"""`brisk bench legacy`: ours compared with the slow loop that briskrl replaced.

Both sides alternate in one process, and the figures are medians over the turns, so that the load of
the machine affects both.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from time import process_time
from typing import TYPE_CHECKING

from briskrl.bench.command import BenchCommand, NumEnvs, Seconds, Seed, Slices
from briskrl.bench.compare import PairedComparison
from briskrl.bench.snake_dqn import snake_dqn
from briskrl.bench.stopwatch import Stopwatch
from briskrl.envs.snake.config import SnakeConfig
from briskrl.training.config import TrainConfig

if TYPE_CHECKING:
    from benchmarks.legacy.trainer import LegacyTrainer, Transitions
    from briskrl.core.types import Decision, StepBuffers
    from briskrl.envs.snake.env import SnakeVecEnv

NETWORK = snake_dqn(net=(128, 128), batch_size=64)
"""Settings of both loops."""
PUSHED_STEPS = 4
"""Vector steps that are stored repeatedly, from a few buffers, as a collector does."""
PUSHES = 1600
"""Our pushes per slice, so that a slice is long enough for the clock."""
REPLAYS = 10
"""Our replays of the recording per slice, for the same reason."""

DESCRIPTION = """\
Ours compared with the slow loop that briskrl replaced, on the same task.

  push_speedup    storing one transition of each game: a Python loop with two array copies and
                  three .item() calls each, compared with one batched write
  flood_speedup   reachable space of each game: a search with a Python queue per direction, compared
                  with our whole compiled step (rules, rewards and features included)
  loop_speedup    training steps per CPU second: num_envs // 4 updates per vector step, pushes one
                  by one, a print and a flushed CSV row per episode, compared with our defaults

Both sides alternate in one process; figures are medians over the slices, by CPU time."""

EXAMPLES = """\
examples:
  brisk bench legacy
  brisk bench legacy --slices 25 --json"""


@dataclass(frozen=True, slots=True)
class LegacyBench:
    """Settings of `brisk bench legacy`."""

    num_envs: NumEnvs = 256
    """Games stepped together, on both sides."""
    slices: Slices = 9
    """Slices of each side per comparison; the figures are medians over them."""
    seconds: Seconds = 1.0
    """CPU seconds per slice of the training loops."""
    seed: Seed = 0
    """Seed of games and networks."""


@dataclass(frozen=True, slots=True)
class LegacyFigures:
    """Medians over the slices; times are CPU times."""

    push_speedup: float
    """Storing one transition of each game: one by one over one batched write."""
    flood_speedup: float
    """Reachable space of each game: Python searches alone over our whole step."""
    loop_speedup: float
    """Steps per CPU second: our loop at its default ratio over the slow one."""
    push_legacy_us: float
    push_ours_us: float
    flood_legacy_us: float
    flood_ours_us: float
    loop_legacy_steps_per_cpu_s: float
    loop_ours_steps_per_cpu_s: float
    loop_legacy_updates_per_transition: float
    loop_ours_updates_per_transition: float
    mean_length: float
    """Mean length of the snakes in the comparison of searches."""
    num_envs: int
    slices: int


def measure_legacy(bench: LegacyBench) -> LegacyFigures:
    """Measure pushing, flood filling and whole training loops, each in alternating slices."""
    import torch

    torch.set_num_threads(1)
    push = _compare_push(bench)
    flood, mean_length = _compare_flood(bench)
    loop = _compare_loops(bench)
    return LegacyFigures(
        push_speedup=push.median_ratio("ours", "legacy"),
        flood_speedup=flood.median_ratio("ours", "legacy"),
        loop_speedup=loop.median_ratio("ours", "legacy"),
        push_legacy_us=1e6 / push.median("legacy"),
        push_ours_us=1e6 / push.median("ours"),
        flood_legacy_us=1e6 / flood.median("legacy"),
        flood_ours_us=1e6 / flood.median("ours"),
        loop_legacy_steps_per_cpu_s=loop.median("legacy"),
        loop_ours_steps_per_cpu_s=loop.median("ours"),
        loop_legacy_updates_per_transition=max(1, bench.num_envs // 4) / bench.num_envs,
        loop_ours_updates_per_transition=NETWORK.ratio,
        mean_length=mean_length,
        num_envs=bench.num_envs,
        slices=bench.slices,
    )


def _rate(work: Callable[[], object], repeats: int) -> float:
    """Calls per CPU second."""
    begin = process_time()
    for _ in range(repeats):
        work()
    return repeats / max(1e-9, process_time() - begin)


def _compare_push(bench: LegacyBench) -> PairedComparison:
    """Vector steps stored per CPU second."""
    from benchmarks.legacy.trainer import LegacyReplay, push_one_by_one
    from briskrl.envs.snake.env import SnakeVecEnv
    from briskrl.memory.replay import ReplayBuffer

    env = SnakeVecEnv(bench.num_envs, config=SnakeConfig(obs="features"))
    steps = play_randomly(env, bench.seed)
    tensors = [to_transitions(*step) for step in steps]
    legacy_replay = LegacyReplay(NETWORK.buffer_size, env.env_spec.obs.size, bench.seed)
    replay = ReplayBuffer(
        spec=env.env_spec,
        num_envs=bench.num_envs,
        capacity=NETWORK.buffer_size,
        n_step=1,
        gamma=NETWORK.gamma,
    )

    def push_legacy() -> None:
        for step in tensors:
            push_one_by_one(legacy_replay, step)

    def push_ours() -> None:
        for before, decision, after in steps:
            replay.write(before, decision, after)

    comparison = PairedComparison(
        legacy=lambda: PUSHED_STEPS * _rate(push_legacy, 4),
        ours=lambda: PUSHED_STEPS * _rate(push_ours, PUSHES),
    )
    comparison.take_turns(bench.slices, warm_up=True)
    return comparison


def play_randomly(env: SnakeVecEnv, seed: int) -> list[tuple[StepBuffers, Decision, StepBuffers]]:
    """PUSHED_STEPS vector steps with random actions: before, actions, after."""
    import numpy as np

    from briskrl.core.types import Decision, StepBuffers

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


def to_transitions(before: StepBuffers, decision: Decision, after: StepBuffers) -> Transitions:
    """A vector step as the tensors of the slow loop."""
    import numpy as np
    import torch

    from benchmarks.legacy.trainer import Transitions

    ended = after.terminated | after.truncated
    next_states = np.where(ended[:, None], after.final_obs, after.obs)
    return Transitions(
        states=torch.from_numpy(before.obs),
        actions=torch.from_numpy(decision.action),
        rewards=torch.from_numpy(after.reward),
        next_states=torch.from_numpy(next_states),
        dones=torch.from_numpy(ended),
    )


def _compare_flood(bench: LegacyBench) -> tuple[PairedComparison, float]:
    """Vector steps per CPU second, and the mean length of the snakes.

    Ours is a whole step with rules, rewards and all features; the slow side is the searches alone.
    So the ratio understates the speedup.
    """
    import numpy as np

    from benchmarks.legacy.trainer import flood_features, games_of
    from briskrl.bench.recorded_play import ReplayError, record_snake, replay
    from briskrl.core.types import StepBuffers
    from briskrl.envs.snake.env import SnakeVecEnv

    config = SnakeConfig(obs="flood")
    recording = record_snake(config, bench.num_envs, bench.seed)
    env = SnakeVecEnv(bench.num_envs, config=config)
    out = StepBuffers.allocate(env.env_spec, bench.num_envs)
    env.set_state(recording.state)
    env.observe_into(out)
    games = games_of(env)
    searched = flood_features(games, config.height, config.width)
    if not np.array_equal(searched, out.obs[:, 11:14]):
        raise ReplayError("The Python searches and the flood observation differ.")

    def ours() -> float:
        watch = Stopwatch()
        for _ in range(REPLAYS):
            replay(recording, env, out, watch)
        return REPLAYS * len(recording.actions) / max(1e-9, watch.cpu_s)

    comparison = PairedComparison(
        legacy=lambda: _rate(lambda: flood_features(games, config.height, config.width), 1),
        ours=ours,
    )
    comparison.take_turns(bench.slices, warm_up=True)
    return comparison, recording.mean_length


def _compare_loops(bench: LegacyBench) -> PairedComparison:
    """Steps per CPU second of both training loops."""
    from benchmarks.legacy.trainer import LegacyTrainer
    from briskrl.bench.train_loop import BenchTrainLoop
    from briskrl.envs.snake.env import SnakeVecEnv

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
            comparison = PairedComparison(
                legacy=lambda: _train_legacy(trainer, bench.seconds),
                ours=lambda: ours.train_for(bench.seconds),
            )
            comparison.take_turns(bench.slices, warm_up=True)
            return comparison
        finally:
            ours.close()


def _train_legacy(trainer: LegacyTrainer, cpu_s: float) -> float:
    """Steps per CPU second over about `cpu_s` CPU seconds."""
    begin = now = process_time()
    iterations = 0
    while now - begin < cpu_s:
        trainer.iterate()
        iterations += 1
        now = process_time()
    return iterations * trainer.env.num_envs / (now - begin)


COMMAND = BenchCommand(
    DESCRIPTION,
    EXAMPLES,
    LegacyBench,
    measure_legacy,
    lambda bench: 2 * (bench.slices + 1) * bench.seconds + 5,
)
