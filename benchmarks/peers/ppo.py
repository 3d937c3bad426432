"""Our PPO compared with other libraries' on CartPole, in alternating slices of whole rounds."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import asdict, dataclass
from importlib.metadata import version
from importlib.util import find_spec
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from benchmarks.peers.compare import PeersBench
from benchmarks.peers.ppo_settings import (
    CLEANRL_STYLE,
    COMMON,
    DEFAULTS,
    ENV,
    EQUAL,
    VECTOR,
    PPOSettings,
    Scale,
)
from briskrl.algos.ppo.config import PPOConfig
from briskrl.bench.compare import PairedComparison
from briskrl.bench.train_loop import BenchTrainLoop

NOTES = (
    "Same environment, network, epochs, loss, optimizer and one thread on both sides, which "
    "alternate in one process in slices of whole rollouts and the learning from them; medians over "
    "the slices, by CPU time. Environments are stepped one by one in process on both sides, except "
    "on our side of `defaults`, where auto chooses the backend, and of `vector`, which uses "
    "Gymnasium's own vectorized version. Our episode logs are on, the peer's logger is off. SBX "
    "has no value clipping."
)

Build = Callable[[Any, PPOConfig, int], Any]
"""build(envs, config, seed): a peer's model."""


@dataclass(frozen=True, slots=True)
class Match:
    """Figures of one comparison: steps per CPU second, medians over the slices."""

    ours_steps_per_cpu_s: float
    peer_steps_per_cpu_s: float
    ratio: float
    """Ours over the peer's: median over pairs of adjacent slices."""
    ours: Scale
    peer: Scale
    ours_rounds: int
    """Rollouts, with the learning from each, per slice."""
    peer_rounds: int
    ours_notes: tuple[str, ...]
    """Remarks of our environments on the chosen backend."""


@dataclass(frozen=True, slots=True)
class Matches:
    """All comparisons with one peer."""

    peer: str
    peer_version: str
    equal: Match
    """64 environments and minibatches of 256 on both sides."""
    cleanrl: Match
    """CleanRL's settings for CartPole on both sides: 4 environments, minibatches of 128."""
    defaults: Match
    """Our defaults, the peer as in `equal`."""
    vector: Match
    """Our defaults with `--backend vector`, the peer as in `equal`."""


@dataclass(frozen=True, slots=True)
class PPOFigures(Matches):
    """Comparisons with Stable-Baselines3, with SBX if it is installed, and shared settings."""

    sbx: Matches | None
    env: str
    settings: dict[str, Any]
    """Settings of all comparisons; `cleanrl` has CleanRL's learning rate and value clipping."""
    slices: int
    notes: str


def measure_ppo(bench: PeersBench) -> PPOFigures:
    """Train ours and each installed peer in alternating slices."""
    from benchmarks.peers import ppo_sb3

    first = _matches(bench, "stable-baselines3", ppo_sb3.build_ppo)
    second = None
    if find_spec("sbx") is not None:
        from benchmarks.peers import ppo_sbx

        second = _matches(bench, "sbx-rl", ppo_sbx.build_ppo)
    return PPOFigures(
        **{name: getattr(first, name) for name in Matches.__dataclass_fields__},
        sbx=second,
        env=ENV,
        settings=_shared_settings(),
        slices=bench.slices,
        notes=NOTES,
    )


def _shared_settings() -> dict[str, Any]:
    excluded = {"update_steps", "minibatch_size", "body", "channels", "reuse", "grad_accumulation"}
    return {name: value for name, value in asdict(COMMON).items() if name not in excluded}


def _matches(bench: PeersBench, peer: str, build: Build) -> Matches:
    return Matches(
        peer=peer,
        peer_version=version(peer),
        equal=_match(bench, EQUAL, build),
        cleanrl=_match(bench, CLEANRL_STYLE, build),
        defaults=_match(bench, DEFAULTS, build),
        vector=_match(bench, VECTOR, build),
    )


class OurSlices:
    """Our loop in slices of whole rounds.

    Args:
        settings: What to train.
        bench: Length of a slice, engine and seed.
        folder: The run folder to create.
    """

    def __init__(self, settings: PPOSettings, bench: PeersBench, folder: Path) -> None:
        self._loop = BenchTrainLoop(settings.our_config(bench.seed, bench.engine), folder)
        try:
            # The first updates end the first rollout, so slices begin with a rollout.
            self._loop.prepare()
            rate = self._loop.train_rounds(1)
        except BaseException:
            self._loop.close()
            raise
        self.rounds = max(1, round(bench.seconds * rate / settings.ours.rollout))
        self.rates: list[float] = []
        """Steps per CPU second of the slices."""
        self.notes = tuple(self._loop.trainer.env.notes)
        """Remarks of the environments on the chosen backend."""

    def run_slice(self) -> None:
        """Run one slice."""
        self.rates.append(self._loop.train_rounds(self.rounds))

    def close(self) -> None:
        """Release everything."""
        self._loop.close()


def _match(bench: PeersBench, settings: PPOSettings, build: Build) -> Match:
    from benchmarks.peers.dqn_sb3 import NEVER
    from benchmarks.peers.ppo_sb3 import RoundSliceCallback, make_envs

    envs = make_envs(ENV, settings.peer.num_envs, bench.seed)
    with TemporaryDirectory(prefix="brisk-bench-") as folder:
        ours = OurSlices(settings, bench, Path(folder) / "run")
        try:
            model = build(envs, settings.peer_config(), bench.seed)
            peer = RoundSliceCallback(
                cpu_s=bench.seconds, slices=bench.slices, between=ours.run_slice
            )
            model.learn(NEVER, callback=peer, log_interval=NEVER)
        finally:
            ours.close()
            envs.close()
    comparison = PairedComparison()
    # The first slice of each side does not count.
    for ours_rate, peer_rate in zip(ours.rates[1:], peer.rates[1:], strict=True):
        comparison.record(ours=ours_rate, peer=peer_rate)
    return Match(
        ours_steps_per_cpu_s=comparison.median("ours"),
        peer_steps_per_cpu_s=comparison.median("peer"),
        ratio=comparison.median_ratio("ours", "peer"),
        ours=settings.ours,
        peer=settings.peer,
        ours_rounds=ours.rounds,
        peer_rounds=peer.rounds,
        ours_notes=ours.notes,
    )
