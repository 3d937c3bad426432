"""`brisk bench peers`: ours compared with other libraries on the same tasks."""

from __future__ import annotations

from dataclasses import asdict, dataclass, field
from importlib.metadata import version
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any, Literal

from briskrl.bench.command import BenchCommand, NumEnvs, Seconds, Seed, Slices, Threads
from briskrl.core.errors import ConfigError

if TYPE_CHECKING:
    from benchmarks.peers.ppo import PPOFigures
    from benchmarks.peers.processes import ProcessFigures

PEER = "stable-baselines3"

DESCRIPTION = """\
Ours compared with other libraries on the same tasks, one thread each.

DQN on our Snake, compared with Stable-Baselines3: same game, network (128x128), batch size (64),
updates per transition (1 in 32), replay buffer and schedules. Its figures are at the top level.

PPO on CartPole-v1, compared with Stable-Baselines3, and with SBX if it is installed: same network
(64x64 tanh, separate for policy and value), epochs (4), loss, optimizer, environments in process.
  ppo.equal      64 environments x 32 steps, minibatches of 256, both sides
  ppo.cleanrl    CleanRL's settings: 4 environments x 128 steps, minibatches of 128, both sides
  ppo.defaults   our defaults (1024 x 32, minibatches of 4096, and the backend that auto chooses,
                 compiled code equal to Gymnasium's) compared with 64 x 32 and 256
  ppo.vector     the same with --backend vector: Gymnasium's own vectorized CartPole

The sides alternate in one process; figures are medians over the slices, by CPU time. Slices of PPO
are whole rollouts with the learning from them. Needs the peers extra: pip install "briskrl[peers]".

Whole loops: PPO on CartPole with 1024 environments x 32 steps and minibatches of 4096 on all sides,
each with its most suitable CartPole in its own process: ours compiled, JAX with game and learning
in one compiled program, PufferLib, Sample Factory and Tianshou. Steps: 1024 games of CartPole
without learning, compared with EnvPool. Each library is measured in the Python that has it, which
is given with --peer-python, or in BRISK_PEER_PYTHON as NAME=PATH,... (jax, pufferlib,
sample-factory, tianshou, envpool).
  whole.cpu_ratio      steps per CPU second, ours over each peer's
  whole.wall_ratio     steps per second of wall time; use --threads 2 and an idle machine
  stepping.cpu_ratio   the same for steps alone"""

EXAMPLES = """\
examples:
  brisk bench peers
  brisk bench peers --only ppo
  brisk bench peers --only whole --peer-python jax=/path/to/venv/bin/python
  brisk bench peers --only step --peer-python envpool=/path/to/venv/bin/python
  brisk bench peers --slices 25 --json"""

VARIANTS = {"dqn": 3, "ppo": 6, "whole": 3, "step": 2, None: 9}
"""Number of alternating variants per selection, to estimate the duration."""


@dataclass(frozen=True, slots=True)
class PeersBench:
    """Settings of `brisk bench peers`."""

    only: Literal["dqn", "ppo", "whole", "step"] | None = None
    """Measure one part: DQN on Snake, PPO on CartPole, PPO in whole loops, or steps alone."""
    peer_python: dict[str, Any] = field(default_factory=dict)
    """Python interpreters of libraries, as in jax=/path/to/python; also BRISK_PEER_PYTHON."""
    engine: Literal["auto", "fused", "torch"] = "auto"
    """Engine of our PPO."""
    threads: Threads = 1
    """Threads of each side of whole loops and of steps."""
    num_envs: NumEnvs = 256
    """Environments of our DQN."""
    peer_num_envs: NumEnvs = 64
    """Environments of the peer's DQN; ours is also measured with as many."""
    slices: Slices = 9
    """Slices of each side per comparison; the figures are medians over them."""
    seconds: Seconds = 1.5
    """CPU seconds per slice; for PPO rounded to whole rollouts."""
    seed: Seed = 0
    """Seed of environments and networks."""


@dataclass(frozen=True, slots=True)
class PeerFigures:
    """DQN on Snake, PPO on CartPole, steps of CartPole alone; None where not measured.

    The figures of DQN are at the top level; see DQNFigures for their meaning.
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
    whole: ProcessFigures | None = None
    """PPO on CartPole in whole loops, if there is a peer to measure."""
    stepping: ProcessFigures | None = None
    """Steps of CartPole without learning, if there is a peer to measure."""


def measure_peers(bench: PeersBench) -> PeerFigures:
    """Measure ours and the peers in alternating slices.

    Raises:
        ConfigError: Stable-Baselines3 is not installed, or cannot keep the update ratio with this
            number of environments, or a peer's Python cannot be used.
    """
    from benchmarks.peers.processes import (
        LEARNERS,
        STEPPERS,
        measure_env_steps,
        measure_ppo_processes,
        peer_pythons,
    )

    pythons = peer_pythons(bench.peer_python)
    if bench.only == "whole":
        found = measure_ppo_processes(bench)
        return PeerFigures(peer=", ".join(pythons), peer_version="", whole=found)
    if bench.only == "step":
        found = measure_env_steps(bench)
        return PeerFigures(peer=", ".join(pythons), peer_version="", stepping=found)
    if find_spec("stable_baselines3") is None:
        raise ConfigError(
            "Stable-Baselines3 is not installed, so there is no peer to measure. "
            'Install it with: pip install "briskrl[peers]"'
        )
    from benchmarks.peers.dqn import check_dqn, measure_dqn
    from benchmarks.peers.ppo import measure_ppo

    if bench.only != "ppo":
        check_dqn(bench)
    dqn = asdict(measure_dqn(bench)) if bench.only != "ppo" else {}
    ppo = measure_ppo(bench) if bench.only != "dqn" else None
    has_learners = bench.only != "dqn" and pythons.keys() & LEARNERS
    has_steppers = bench.only is None and pythons.keys() & STEPPERS
    return PeerFigures(
        peer=PEER,
        peer_version=version(PEER),
        **dqn,
        ppo=ppo,
        whole=measure_ppo_processes(bench) if has_learners else None,
        stepping=measure_env_steps(bench) if has_steppers else None,
    )


COMMAND = BenchCommand(
    DESCRIPTION,
    EXAMPLES,
    PeersBench,
    measure_peers,
    lambda bench: VARIANTS[bench.only] * (bench.slices + 1) * bench.seconds + 10,
)
