"""Our DQN compared with Stable-Baselines3's on our Snake, in alternating slices."""

from __future__ import annotations

from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory

from benchmarks.peers.compare import PeersBench
from briskrl.bench.compare import PairedComparison
from briskrl.bench.snake_dqn import snake_dqn
from briskrl.bench.train_loop import BenchTrainLoop
from briskrl.core.errors import ConfigError
from briskrl.envs.snake.config import SnakeConfig
from briskrl.envs.snake.env import SnakeVecEnv
from briskrl.training.config import TrainConfig

LEARNING = snake_dqn(
    train_steps_ratio=0.03125,
    batch_size=64,
    net=(128, 128),
    learning_starts=10_000,
    # Exploration has ended before the first slice: the peer draws random actions one by one, and
    # that should not decide the comparison.
    epsilon_steps=10_000,
)
"""Settings of both sides."""
FIRST_STEP = 2 * LEARNING.learning_starts
NOTES = (
    "Same game, network, batch size, updates per transition, replay buffer, schedules and one "
    "thread on both sides, which alternate in one process; medians over the slices, by CPU time. "
    "torch.set_flush_denormal(True) applies to the whole process, so the peer benefits from it too."
)


@dataclass(frozen=True, slots=True)
class DQNFigures:
    """Steps per CPU second of both sides, medians over the slices."""

    ours_steps_per_cpu_s: float
    peer_steps_per_cpu_s: float
    ratio: float
    """Ours over the peer's: median over pairs of adjacent slices."""
    ours_num_envs: int
    peer_num_envs: int
    ours_64_steps_per_cpu_s: float
    """Ours with as many environments as the peer (64 by default)."""
    train_steps_ratio: float
    batch_size: int
    net: tuple[int, ...]
    slices: int
    notes: str


def measure_dqn(bench: PeersBench) -> DQNFigures:
    """Train with both libraries in alternating slices; see `check_dqn`."""
    with TemporaryDirectory(prefix="brisk-bench-") as folder, ExitStack() as stack:
        loops = {}
        for name, num_envs in (("ours", bench.num_envs), ("ours_small", bench.peer_num_envs)):
            loops[name] = BenchTrainLoop(_config(bench, num_envs), Path(folder) / name)
            stack.callback(loops[name].close)
        for loop in loops.values():
            loop.prepare(FIRST_STEP)
        comparison = _alternate(bench, loops)
    return DQNFigures(
        ours_steps_per_cpu_s=comparison.median("ours"),
        peer_steps_per_cpu_s=comparison.median("peer"),
        ratio=comparison.median_ratio("ours", "peer"),
        ours_num_envs=bench.num_envs,
        peer_num_envs=bench.peer_num_envs,
        ours_64_steps_per_cpu_s=comparison.median("ours_small"),
        train_steps_ratio=LEARNING.ratio,
        batch_size=LEARNING.batch_size,
        net=LEARNING.net,
        slices=bench.slices,
        notes=NOTES,
    )


def check_dqn(bench: PeersBench) -> None:
    """Check the number of environments of the peer.

    Raises:
        ConfigError: The peer cannot keep the update ratio with it.
    """
    num_envs, period = bench.peer_num_envs, round(1 / LEARNING.ratio)
    if num_envs % period and period % num_envs:
        raise ConfigError(
            f"peer_num_envs must divide {period} or be a multiple of it, not {num_envs}: the peer "
            "does a whole number of updates per vector step, or one in a whole number of them, and "
            f"the ratio is one in {period} transitions."
        )


def _alternate(bench: PeersBench, loops: dict[str, BenchTrainLoop]) -> PairedComparison:
    """Train the peer, with our slices between its slices."""
    from benchmarks.peers.dqn_sb3 import NEVER, SliceCallback, SnakeForSB3, build_dqn

    games = SnakeVecEnv(bench.peer_num_envs, config=SnakeConfig())
    env = SnakeForSB3(games, bench.seed)
    model = build_dqn(env, LEARNING, bench.seed)
    comparison, warm_ups = PairedComparison(), iter([True])

    def record(peer_rate: float) -> None:
        rates = {name: loop.train_for(bench.seconds) for name, loop in loops.items()}
        # The first slice of each side does not count.
        if not next(warm_ups, False):
            comparison.record(peer=peer_rate, **rates)

    callback = SliceCallback(
        cpu_s=bench.seconds, first_step=FIRST_STEP, slices=bench.slices, after_slice=record
    )
    model.learn(NEVER, callback=callback, log_interval=NEVER)
    env.close()
    return comparison


def _config(bench: PeersBench, num_envs: int) -> TrainConfig:
    return TrainConfig(
        num_envs=num_envs, seed=bench.seed, algo_config=LEARNING, env_config=SnakeConfig()
    )
