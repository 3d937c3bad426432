"""`brisk bench env`: the speed of the environment alone, in play of a safe heuristic."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from briskrl.bench import recorded_play as tapes
from briskrl.bench.config import EnvBench
from briskrl.bench.recorded_play import Recording
from briskrl.bench.stopwatch import Stopwatch, per_second
from briskrl.core.types import StepBuffers
from briskrl.envs.native import NativeVecEnv
from briskrl.envs.snake.config import SnakeConfig
from briskrl.envs.snake.env import SnakeVecEnv


@dataclass(frozen=True, slots=True)
class EnvFigures:
    """What stepping cost; steps are those of single games."""

    steps: int
    wall_s: float
    cpu_s: float
    steps_per_s: float
    steps_per_cpu_s: float
    ns_per_step: float
    """CPU time."""
    best_ns_per_step: float
    """CPU time of the replay that neighbours on the machine disturbed least."""
    threads: int
    num_envs: int
    obs: str | None
    """Snake's observation mode, as the next one is Snake's."""
    mean_length: float | None
    """Mean length of the snakes during the measured play."""
    replays: int
    """How often the recorded play was repeated, each time with the recorded end."""


def measure_env(bench: EnvBench, name: str = "snake", settings: Any = None) -> EnvFigures:
    """Replay recorded play until `bench.seconds` of stepping have passed.

    Only calls of `step_into` are timed. Every replay is checked to have ended like the recording.

    Args:
        bench: How to measure.
        name: The environment.
        settings: Settings of an environment other than Snake; its defaults if None.

    Raises:
        ConfigError: The environment is not one of our own, or has no such player.
    """
    env: NativeVecEnv
    if name == "snake":
        config = SnakeConfig(obs=bench.obs, height=bench.height, width=bench.width)
        tape = tapes.record(config, bench.num_envs, bench.seed)
        env = SnakeVecEnv(bench.num_envs, config=config, threads=bench.threads)
    else:
        tape, env = tapes.record_family(
            name,
            bench.num_envs,
            bench.seed,
            threads=bench.threads,
            config=settings,
            who=bench.player,
        )
    out = StepBuffers.allocate(env.env_spec, bench.num_envs)
    # The first replay pays for compiling and cold caches.
    replay(tape, env, out, Stopwatch())
    watch = Stopwatch()
    marks = [0.0]
    while watch.wall_s < bench.seconds:
        replay(tape, env, out, watch)
        marks.append(watch.cpu_s)
    env.close()
    replays = len(marks) - 1
    steps_per_replay = len(tape.actions) * bench.num_envs
    steps = replays * steps_per_replay
    return EnvFigures(
        steps=steps,
        wall_s=watch.wall_s,
        cpu_s=watch.cpu_s,
        steps_per_s=per_second(steps, watch.wall_s),
        steps_per_cpu_s=per_second(steps, watch.cpu_s),
        ns_per_step=1e9 * watch.cpu_s / steps,
        best_ns_per_step=1e9 * float(np.diff(marks).min()) / steps_per_replay,
        threads=bench.threads,
        num_envs=bench.num_envs,
        obs=bench.obs if name == "snake" else None,
        mean_length=tape.mean_length if name == "snake" else None,
        replays=replays,
    )


def replay(tape: Recording, env: NativeVecEnv, out: StepBuffers, watch: Stopwatch) -> None:
    """Play the tape once from its beginning, with the steps on the watch.

    Raises:
        ReplayError: The games ended otherwise than recorded.
    """
    env.set_state(tape.state)
    step = env.step_into
    with watch:
        for actions in tape.actions:
            step(actions, out)
    tapes.check(tape, env)
