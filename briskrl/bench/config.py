"""Settings of the benchmarks, as data; imports nothing heavy."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Annotated, Any, Literal, get_args

from msgspec import Meta

NumEnvs = Annotated[int, Meta(ge=1, le=1_048_576)]
Seconds = Annotated[float, Meta(gt=0, le=3600)]
Slices = Annotated[int, Meta(ge=1, le=1000)]
Seed = Annotated[int, Meta(ge=0)]
Preset = Literal["debug", "fast", "moderate", "balanced", "quality"]


@dataclass(frozen=True, slots=True)
class EnvBench:
    """How fast games are stepped."""

    obs: Literal["features", "flood", "extended", "grid"] = "features"
    """Observation mode to measure."""
    num_envs: NumEnvs = 256
    """Games stepped together."""
    seconds: Seconds = 3.0
    """Seconds of stepping to measure."""
    threads: Annotated[int, Meta(ge=1, le=1024)] = 1
    """Threads; used from about a thousand games on."""
    height: Annotated[int, Meta(ge=4, le=64)] = 10
    """Rows of the board."""
    width: Annotated[int, Meta(ge=4, le=64)] = 10
    """Columns of the board."""
    seed: Seed = 0
    """Seed of the games."""
    player: str = "auto"
    """Who plays in games other than Snake: random, or a hand-written player, half of whose moves
    are random; auto takes the best one there is."""


@dataclass(frozen=True, slots=True)
class WildfireBench:
    """How fast fires burn and fuel breaks are placed."""

    size: Literal[20, 40, 100] = 20
    """Rows and columns of the landscapes."""
    directions: Literal[8, 16, 32] = 16
    """Directions in which fire goes from a cell."""
    seconds: Seconds = 6.0
    """CPU seconds to measure: half of them fires alone, half of them steps."""
    num_envs: NumEnvs = 16
    """Episodes stepped together."""
    threads: Annotated[int, Meta(ge=1, le=1024)] = 1
    """Threads that share the steps; fires alone burn on one."""
    seed: Seed = 0
    """Seed of fires and actions."""


@dataclass(frozen=True, slots=True)
class LegacyBench:
    """Ours against the slow path that the project comes from."""

    num_envs: NumEnvs = 256
    """Games stepped together, on both sides."""
    slices: Slices = 9
    """Turns of each side per comparison; the figures are medians over them."""
    seconds: Seconds = 1.0
    """CPU seconds of our training loop per turn; the slow one takes about as long."""
    seed: Seed = 0
    """Seed of games and networks."""


@dataclass(frozen=True, slots=True)
class PeersBench:
    """Ours against other libraries."""

    only: Literal["dqn", "ppo", "whole", "step"] | None = None
    """Measure one thing alone: DQN on Snake, PPO on CartPole, of that the whole loops, or steps."""
    peer_python: dict[str, Any] = field(default_factory=dict)
    """Where the Python with a library is, as in jax=/path/to/python; likewise BRISK_PEER_PYTHON."""
    engine: Literal["auto", "fused", "torch"] = "auto"
    """Who computes our networks of PPO."""
    threads: Annotated[int, Meta(ge=1, le=1024)] = 1
    """Threads of each side of whole loops and of steps."""
    num_envs: NumEnvs = 256
    """Games of our DQN."""
    peer_num_envs: NumEnvs = 64
    """Games of the peer's DQN; ours is measured with as many too."""
    slices: Slices = 9
    """Turns of each side per comparison; the figures are medians over them."""
    seconds: Seconds = 1.5
    """CPU seconds per turn; PPO's are rounded to whole rollouts."""
    seed: Seed = 0
    """Seed of games and networks."""


@dataclass(frozen=True, slots=True)
class RolloutBench:
    """Collecting a rollout against acting and stepping alone."""

    num_envs: NumEnvs = 1024
    """Games stepped together."""
    update_steps: Annotated[int, Meta(ge=1, le=65_536)] = 32
    """Steps of each game per rollout."""
    slices: Slices = 9
    """Stretches of alternating turns; the figures are medians over them."""
    engine: Literal["auto", "fused", "torch"] = "auto"
    """Who computes the policy."""
    seconds: Seconds = 1.0
    """CPU seconds per stretch."""
    seed: Seed = 0
    """Seed of games and networks."""


@dataclass(frozen=True, slots=True)
class MachineBench:
    """What the machine can do."""

    seconds: Seconds = 5.0
    """Seconds to measure for."""


@dataclass(frozen=True, slots=True)
class EnginesBench:
    """The fused engine against torch, and two threads against one."""

    slices: Slices = 9
    """Turns of each side per comparison; the figures are medians over them."""
    seconds: Seconds = 0.5
    """Seconds per turn."""
    seed: Seed = 0
    """Seed of environments and networks."""


@dataclass(frozen=True, slots=True)
class ShareBench:
    """Training on an environment against training on CartPole with the same network."""

    slices: Slices = 15
    """Turns of each side."""
    seconds: Seconds = 0.5
    """CPU seconds per turn, about."""


@dataclass(frozen=True, slots=True)
class RatioBench:
    """What each update ratio costs and buys."""

    presets: Annotated[tuple[Preset, ...], Meta(min_length=1)] = get_args(Preset)
    """Presets of --train-steps-ratio to train."""
    seeds: Annotated[int, Meta(ge=1, le=1000)] = 3
    """Runs per preset; their seeds follow --seed."""
    points: Annotated[int, Meta(ge=1, le=1000)] = 10
    """Times along a run at which the policy plays, closer together at its beginning."""
    games: Annotated[int, Meta(ge=1, le=1_000_000)] = 200
    """Fresh games per score."""
    score: float | None = None
    """The score to reach; by default one that suits the game."""
    results: str | None = None
    """File of JSON lines that runs are added to; those it has already are not done again."""
    plot: str | None = None
    """Chart of the curves to write: a .svg, .png or .pdf file."""


@dataclass(frozen=True, slots=True)
class BackendsBench:
    """Worker processes against Gymnasium's."""

    num_envs: Annotated[int, Meta(ge=2, le=1024)] = 16
    """Environments, on every side."""
    slices: Slices = 9
    """Turns of each side per comparison; the figures are medians over them."""
    seconds: Seconds = 1.0
    """Seconds per turn."""
    seed: Seed = 0
    """Seed of environments and actions."""
