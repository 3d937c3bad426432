"""Our PPO and other libraries' on CartPole, turn by turn in whole rounds of collect and learn."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import asdict, dataclass
from importlib.metadata import version
from importlib.util import find_spec
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np

from benchmarks.peers.ppo_settings import (
    CLEANRL_STYLE,
    COMMON,
    DEFAULTS,
    ENV,
    EQUAL,
    VECTOR,
    Scale,
    Terms,
)
from briskrl.algos.ppo.config import PPOConfig
from briskrl.bench.config import PeersBench
from briskrl.bench.train_loop import BenchTrainLoop

NOTES = (
    "Same environment, network, epochs, loss, optimizer and one thread on both sides, which take "
    "turns of whole rollouts and the learning from them in one process; medians over the turns, by "
    "CPU time. Environments are stepped one by one in process on both sides, except on our side of "
    "`defaults`, where the choice is left to auto, and of `vector`, where Gymnasium's own version "
    "steps all of them in one call. Episode logs are on on our side, the peer's logger is off. SBX "
    "has no value clipping."
)

Build = Callable[[Any, PPOConfig, int], Any]
"""build(envs, config, seed): a peer's model."""


@dataclass(frozen=True, slots=True)
class Match:
    """One comparison, in steps per CPU second, medians over the slices."""

    ours_steps_per_cpu_s: float
    peer_steps_per_cpu_s: float
    ratio: float
    """Ours over the peer's: median over pairs of neighbouring slices."""
    ours: Scale
    peer: Scale
    ours_rounds: int
    """Rollouts, and the learning from each, in a slice."""
    peer_rounds: int
    ours_notes: tuple[str, ...]
    """What our environments tell about how they are stepped."""


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
    """Ours as it comes, the peer as in `equal`."""
    vector: Match
    """Ours as it comes with `--backend vector`, the peer as in `equal`."""


@dataclass(frozen=True, slots=True)
class PPOFigures(Matches):
    """The comparisons with Stable-Baselines3, those with SBX if it is installed, and the terms."""

    sbx: Matches | None
    env: str
    settings: dict[str, Any]
    """What all comparisons share; `cleanrl` has CleanRL's learning rate and value clipping."""
    slices: int
    notes: str


def measure_ppo(bench: PeersBench) -> PPOFigures:
    """Train with each installed peer and with ours in alternating slices."""
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
    left_out = {"update_steps", "minibatch_size", "body", "channels", "reuse", "grad_accumulation"}
    return {name: value for name, value in asdict(COMMON).items() if name not in left_out}


def _matches(bench: PeersBench, peer: str, build: Build) -> Matches:
    return Matches(
        peer=peer,
        peer_version=version(peer),
        equal=_match(bench, EQUAL, build),
        cleanrl=_match(bench, CLEANRL_STYLE, build),
        defaults=_match(bench, DEFAULTS, build),
        vector=_match(bench, VECTOR, build),
    )


class OurRounds:
    """Our loop in turns of whole rounds.

    Args:
        terms: What to train.
        bench: How long a turn is, and the seed.
        folder: The run folder to make.
    """

    def __init__(self, terms: Terms, bench: PeersBench, folder: Path) -> None:
        self._loop = BenchTrainLoop(terms.our_config(bench.seed, bench.engine), folder)
        try:
            # The first updates end the first rollout, so that turns begin where rollouts do.
            self._loop.prepare()
            speed = self._loop.advance(1)
        except BaseException:
            self._loop.close()
            raise
        self.rounds = max(1, round(bench.seconds * speed / terms.ours.rollout))
        self.speeds: list[float] = []
        """Steps per CPU second of the turns."""
        self.notes = tuple(self._loop.trainer.env.notes)
        """What the environments tell about how they are stepped."""

    def turn(self) -> None:
        """Take a turn."""
        self.speeds.append(self._loop.advance(self.rounds))

    def close(self) -> None:
        """Release everything."""
        self._loop.close()


def _match(bench: PeersBench, terms: Terms, build: Build) -> Match:
    from benchmarks.peers.dqn_sb3 import FAR_AWAY
    from benchmarks.peers.ppo_sb3 import RoundTurns, make_envs

    envs = make_envs(ENV, terms.peer.num_envs, bench.seed)
    with TemporaryDirectory(prefix="brisk-bench-") as folder:
        ours = OurRounds(terms, bench, Path(folder) / "run")
        try:
            model = build(envs, terms.peer_config(), bench.seed)
            turns = RoundTurns(cpu_s=bench.seconds, slices=bench.slices, between=ours.turn)
            model.learn(FAR_AWAY, callback=turns, log_interval=FAR_AWAY)
        finally:
            ours.close()
            envs.close()
    # The first turn of each side does not count.
    mine, peers = np.array(ours.speeds[1:]), np.array(turns.speeds[1:])
    return Match(
        ours_steps_per_cpu_s=float(np.median(mine)),
        peer_steps_per_cpu_s=float(np.median(peers)),
        ratio=float(np.median(mine / peers)),
        ours=terms.ours,
        peer=terms.peer,
        ours_rounds=ours.rounds,
        peer_rounds=turns.rounds,
        ours_notes=ours.notes,
    )
