"""`brisk bench peers`: ours and other libraries on the same tasks."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from importlib.metadata import version
from importlib.util import find_spec

from benchmarks.peers.dqn import check_dqn, measure_dqn
from benchmarks.peers.ppo import PPOFigures, measure_ppo
from benchmarks.peers.processes import LEARNERS, STEPPERS, Sides, peer_pythons
from benchmarks.peers.stepping import measure_stepping
from benchmarks.peers.whole import measure_whole
from briskrl.bench.config import PeersBench
from briskrl.core.errors import ConfigError

PEER = "stable-baselines3"


@dataclass(frozen=True, slots=True)
class PeerFigures:
    """DQN on Snake, PPO on CartPole, CartPole alone; None where nothing was measured.

    The figures of DQN stand at the top level; see DQNFigures for what they mean.
    """

    peer: str
    peer_version: str
    ours_steps_per_cpu_s: float | None = None
    peer_steps_per_cpu_s: float | None = None
    ratio: float | None = None
    ours_num_envs: int | None = None
    peer_num_envs: int | None = None
    ours_64_steps_per_cpu_s: float | None = None
    train_steps_ratio: float | None = None
    batch_size: int | None = None
    net: tuple[int, ...] | None = None
    slices: int | None = None
    notes: str | None = None
    ppo: PPOFigures | None = None
    whole: Sides | None = None
    """PPO on CartPole in whole loops, if there is a peer to measure."""
    stepping: Sides | None = None
    """Games of CartPole without learning, likewise."""


def measure_peers(bench: PeersBench) -> PeerFigures:
    """Train with ours and the peers in alternating slices.

    Raises:
        ConfigError: Stable-Baselines3 is not installed, or cannot keep the ratio with so few games,
            or a peer's Python cannot be used.
    """
    pythons = peer_pythons(bench.peer_python)
    if bench.only == "whole":
        return PeerFigures(peer=", ".join(pythons), peer_version="", whole=measure_whole(bench))
    if bench.only == "step":
        found = measure_stepping(bench)
        return PeerFigures(peer=", ".join(pythons), peer_version="", stepping=found)
    if find_spec("stable_baselines3") is None:
        raise ConfigError(
            "Stable-Baselines3 is not installed, so there is no peer to measure. "
            'Install it with: pip install "briskrl[peers]"'
        )
    if bench.only != "ppo":
        check_dqn(bench)
    dqn = asdict(measure_dqn(bench)) if bench.only != "ppo" else {}
    ppo = measure_ppo(bench) if bench.only != "dqn" else None
    trains = bench.only != "dqn" and pythons.keys() & LEARNERS
    steps = bench.only is None and pythons.keys() & STEPPERS
    return PeerFigures(
        peer=PEER,
        peer_version=version(PEER),
        **dqn,
        ppo=ppo,
        whole=measure_whole(bench) if trains else None,
        stepping=measure_stepping(bench) if steps else None,
    )
