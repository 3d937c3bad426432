"""`brisk bench peers`: ours and other libraries on the same tasks, and who else is installed."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from importlib.metadata import PackageNotFoundError, version
from importlib.util import find_spec

from briskrl.bench.config import PeersBench
from briskrl.bench.peer_dqn import check_dqn, measure_dqn
from briskrl.bench.peer_ppo import PPOFigures, measure_ppo
from briskrl.bench.whole import WholeLoops, measure_whole, peer_pythons
from briskrl.core.errors import ConfigError

PEER = "stable-baselines3"
OTHERS = ("pufferlib", "tianshou", "sample-factory")
"""Libraries that are looked for here but not measured in this process; `whole` measures some."""


@dataclass(frozen=True, slots=True)
class PeerFigures:
    """DQN on Snake, PPO on CartPole, and what else is installed; None where nothing was measured.

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
    whole: WholeLoops | None = None
    """PPO on CartPole in whole loops, if there is a peer to measure."""
    others: dict[str, str | None] | None = None
    """Installed version of each library that is not measured, None where there is none."""


def measure_peers(bench: PeersBench) -> PeerFigures:
    """Train with ours and the peers in alternating slices.

    Raises:
        ConfigError: Stable-Baselines3 is not installed, or cannot keep the ratio with so few games,
            or a peer's Python cannot be used.
    """
    pythons = peer_pythons(bench.peer_python)
    if bench.only == "whole":
        return PeerFigures(peer=", ".join(pythons), peer_version="", whole=measure_whole(bench))
    if find_spec("stable_baselines3") is None:
        raise ConfigError(
            "Stable-Baselines3 is not installed, so there is no peer to measure. "
            'Install it with: pip install "briskrl[peers]"'
        )
    if bench.only != "ppo":
        check_dqn(bench)
    dqn = asdict(measure_dqn(bench)) if bench.only != "ppo" else {}
    ppo = measure_ppo(bench) if bench.only != "dqn" else None
    return PeerFigures(
        peer=PEER,
        peer_version=version(PEER),
        **dqn,
        ppo=ppo,
        whole=measure_whole(bench) if pythons and bench.only != "dqn" else None,
        others={name: installed_version(name) for name in OTHERS},
    )


def installed_version(name: str) -> str | None:
    """The version of an installed distribution, or None."""
    try:
        return version(name)
    except PackageNotFoundError:
        return None
