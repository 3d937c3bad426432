"""`brisk bench env`: steps per second of an environment alone."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Any, Literal

from msgspec import Meta

from briskrl.bench.command import BenchCommand, NumEnvs, Seconds, Seed, Threads
from briskrl.bench.stopwatch import Stopwatch, per_second

if TYPE_CHECKING:
    from briskrl.bench.recorded_play import Recording
    from briskrl.envs.native import NativeVecEnv

DESCRIPTION = """\
Steps per second of the environment alone, with one thread by default.

Snake is played by a safe heuristic until snakes have realistic lengths. Then its actions are
recorded, and replayed from the same state until the time is up. Only stepping is timed. Every
replay must end like the recording, or the benchmark fails.

Other native environments are played by their best hand-written player (--player chooses another)
with half of its actions random. Their own options can be given; --obs, --height and --width are
options of Snake."""

EXAMPLES = """\
examples:
  brisk bench env snake
  brisk bench env snake --obs grid --seconds 5
  brisk bench env cartpole --num-envs 1024
  brisk bench env cage2 --red meander --player random
  brisk bench env wildfire --size 40      has its own figures and options
  brisk bench env snake --obs flood --num-envs 4096 --threads 2 --json"""


@dataclass(frozen=True, slots=True)
class EnvBench:
    """Settings of `brisk bench env`."""

    obs: Literal["features", "flood", "extended", "grid"] = "features"
    """Observation mode to measure."""
    num_envs: NumEnvs = 256
    """Games stepped together."""
    seconds: Seconds = 3.0
    """Seconds of stepping to measure."""
    threads: Threads = 1
    """Threads; used from about a thousand games on."""
    height: Annotated[int, Meta(ge=4, le=64)] = 10
    """Rows of the board."""
    width: Annotated[int, Meta(ge=4, le=64)] = 10
    """Columns of the board."""
    seed: Seed = 0
    """Seed of the games."""
    player: str = "auto"
    """Player in games other than Snake: random, or a hand-written player, half of whose actions
    are replaced by random ones; auto takes the best one."""


@dataclass(frozen=True, slots=True)
class EnvFigures:
    """Cost of stepping; a step is one transition of one game."""

    steps: int
    wall_s: float
    cpu_s: float
    steps_per_s: float
    steps_per_cpu_s: float
    ns_per_step: float
    """CPU time."""
    best_ns_per_step: float
    """CPU time in the fastest replay."""
    threads: int
    num_envs: int
    obs: str | None
    """Observation mode of Snake; None for other environments, as is `mean_length`."""
    mean_length: float | None
    """Mean length of the snakes during the recorded play."""
    replays: int
    """Number of replays; each ended like the recording."""


def measure_env(bench: EnvBench, name: str = "snake", env_config: Any = None) -> EnvFigures:
    """Replay recorded play until `bench.seconds` of stepping have passed.

    Args:
        bench: How to measure.
        name: The environment.
        env_config: Settings of an environment other than Snake; its defaults if None.

    Raises:
        ConfigError: The environment is not native, or has no such player.
    """
    from briskrl.bench.recorded_play import replay
    from briskrl.core.types import StepBuffers

    recording, env = _record(bench, name, env_config)
    out = StepBuffers.allocate(env.env_spec, bench.num_envs)
    # The first replay includes compilation and cold caches.
    replay(recording, env, out, Stopwatch())
    watch, costs = Stopwatch(), list[float]()
    while watch.wall_s < bench.seconds:
        before = watch.cpu_s
        replay(recording, env, out, watch)
        costs.append(watch.cpu_s - before)
    env.close()
    steps_per_replay = len(recording.actions) * bench.num_envs
    steps = len(costs) * steps_per_replay
    return EnvFigures(
        steps=steps,
        wall_s=watch.wall_s,
        cpu_s=watch.cpu_s,
        steps_per_s=per_second(steps, watch.wall_s),
        steps_per_cpu_s=per_second(steps, watch.cpu_s),
        ns_per_step=1e9 * watch.cpu_s / steps,
        best_ns_per_step=1e9 * min(costs) / steps_per_replay,
        threads=bench.threads,
        num_envs=bench.num_envs,
        obs=bench.obs if name == "snake" else None,
        mean_length=recording.mean_length if name == "snake" else None,
        replays=len(costs),
    )


def _record(bench: EnvBench, name: str, env_config: Any) -> tuple[Recording, NativeVecEnv]:
    from briskrl.bench.recorded_play import record_family, record_snake
    from briskrl.envs.snake.config import SnakeConfig
    from briskrl.envs.snake.env import SnakeVecEnv

    if name == "snake":
        config = SnakeConfig(obs=bench.obs, height=bench.height, width=bench.width)
        recording = record_snake(config, bench.num_envs, bench.seed)
        return recording, SnakeVecEnv(bench.num_envs, config=config, threads=bench.threads)
    return record_family(
        name,
        bench.num_envs,
        bench.seed,
        threads=bench.threads,
        config=env_config,
        player=bench.player,
    )


COMMAND = BenchCommand(
    DESCRIPTION, EXAMPLES, EnvBench, measure_env, lambda bench: bench.seconds + 1
)
