"""Our DQN and Stable-Baselines3's on our Snake, turn by turn."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np

from briskrl.algos.dqn.config import DQNConfig
from briskrl.bench.config import PeersBench
from briskrl.bench.train_loop import BenchTrainLoop
from briskrl.core.errors import ConfigError
from briskrl.envs.snake.config import SnakeConfig
from briskrl.envs.snake.env import SnakeVecEnv
from briskrl.training.config import TrainConfig

LEARNING = DQNConfig(
    train_steps_ratio=0.03125,
    batch_size=64,
    net=(128, 128),
    learning_starts=10_000,
    # Exploration has ended when the first turn begins: the peer draws random moves one by one, and
    # that should not decide the comparison.
    epsilon_steps=10_000,
)
"""What both sides train with."""
FIRST_STEP = 2 * LEARNING.learning_starts
NOTES = (
    "Same game, network, batch size, updates per transition, memory, schedules and one thread on "
    "both sides, which take turns in one process; medians over the turns, by CPU time. "
    "torch.set_flush_denormal(True) holds for the whole process, so the peer profits from it too."
)


@dataclass(frozen=True, slots=True)
class DQNFigures:
    """Steps per CPU second of both, medians over the slices."""

    ours_steps_per_cpu_s: float
    peer_steps_per_cpu_s: float
    ratio: float
    """Ours over the peer's: median over pairs of neighbouring slices."""
    ours_num_envs: int
    peer_num_envs: int
    ours_64_steps_per_cpu_s: float
    """Ours with as many games as the peer (64 unless set otherwise)."""
    train_steps_ratio: float
    batch_size: int
    net: tuple[int, ...]
    slices: int
    notes: str


def measure_dqn(bench: PeersBench) -> DQNFigures:
    """Train with both libraries in alternating slices; see `check_dqn`."""
    with TemporaryDirectory(prefix="brisk-bench-") as folder:
        loops = [
            BenchTrainLoop(_config(bench, num_envs), Path(folder) / str(at))
            for at, num_envs in enumerate((bench.num_envs, bench.peer_num_envs))
        ]
        ours: list[list[float]] = []
        try:
            for loop in loops:
                loop.prepare(FIRST_STEP)
            peer = _train_peer(bench, loops, ours)
        finally:
            for loop in loops:
                loop.close()
    # The first turn of each side does not count.
    peers, mine = np.array(peer[1:]), np.array(ours[1:])
    return DQNFigures(
        ours_steps_per_cpu_s=float(np.median(mine[:, 0])),
        peer_steps_per_cpu_s=float(np.median(peers)),
        ratio=float(np.median(mine[:, 0] / peers)),
        ours_num_envs=bench.num_envs,
        peer_num_envs=bench.peer_num_envs,
        ours_64_steps_per_cpu_s=float(np.median(mine[:, 1])),
        train_steps_ratio=LEARNING.ratio,
        batch_size=LEARNING.batch_size,
        net=LEARNING.net,
        slices=bench.slices,
        notes=NOTES,
    )


def check_dqn(bench: PeersBench) -> None:
    """Refuse what cannot be measured.

    Raises:
        ConfigError: The peer cannot keep the ratio with so many games.
    """
    games, period = bench.peer_num_envs, round(1 / LEARNING.ratio)
    if games % period and period % games:
        raise ConfigError(
            f"peer_num_envs must divide {period} or be a multiple of it, not {games}: the peer "
            "does a whole number of updates per vector step, or one in a whole number of them, and "
            f"the ratio is one in {period} transitions."
        )


def _config(bench: PeersBench, num_envs: int) -> TrainConfig:
    return TrainConfig(
        num_envs=num_envs, seed=bench.seed, algo_config=LEARNING, env_config=SnakeConfig()
    )


def _train_peer(
    bench: PeersBench, loops: list[BenchTrainLoop], ours: list[list[float]]
) -> list[float]:
    """Train the peer with our turns, appended to `ours`, in between; returns its speeds."""
    from benchmarks.peers.dqn_sb3 import FAR_AWAY, SnakeForSB3, Turns, build_dqn

    games = SnakeVecEnv(bench.peer_num_envs, config=SnakeConfig())
    env = SnakeForSB3(games, bench.seed)
    model = build_dqn(env, LEARNING, bench.seed)
    turns = Turns(
        cpu_s=bench.seconds,
        first_step=FIRST_STEP,
        slices=bench.slices,
        between=lambda: ours.append([loop.turn(bench.seconds) for loop in loops]),
    )
    model.learn(FAR_AWAY, callback=turns, log_interval=FAR_AWAY)
    env.close()
    return turns.speeds
