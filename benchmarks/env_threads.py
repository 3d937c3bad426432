"""What a second thread buys in `brisk bench env`, beside what the machine could give at best.

One thread, two threads, and two processes of one thread each play the same recorded stretch in
turns. The ratios are medians over the rounds, by wall time; `machine` is what two processes that
share nothing reach together, which no two threads can surpass.
"""

from __future__ import annotations

import argparse
import json
import statistics
import subprocess
import sys
from contextlib import closing

from briskrl.bench import recorded_play as tapes
from briskrl.bench.env import replay
from briskrl.bench.recorded_play import Recording
from briskrl.bench.stopwatch import Stopwatch
from briskrl.core.types import StepBuffers
from briskrl.envs.snake.config import SnakeConfig
from briskrl.envs.snake.env import SnakeVecEnv


class Player:
    """Games that play the recorded stretch as often as they are asked."""

    def __init__(self, tape: Recording, config: SnakeConfig, num_envs: int, threads: int) -> None:
        self._tape = tape
        self._env = SnakeVecEnv(num_envs, config=config, threads=threads)
        self._out = StepBuffers.allocate(self._env.env_spec, num_envs)
        self.play()

    def play(self) -> float:
        """Play once; returns wall seconds."""
        watch = Stopwatch()
        replay(self._tape, self._env, self._out, watch)
        return watch.wall_s

    def close(self) -> None:
        """Release the games."""
        self._env.close()


def serve(obs: str, num_envs: int) -> None:
    """Play once per line on standard input, and answer with the wall seconds."""
    config = SnakeConfig(obs=obs)  # type: ignore[arg-type]
    with closing(Player(tapes.record(config, num_envs, 0), config, num_envs, 1)) as player:
        print("ready", flush=True)
        for _ in sys.stdin:
            print(player.play(), flush=True)


def measure(obs: str, num_envs: int, rounds: int) -> dict[str, float]:
    """Play in turns; returns medians over the rounds."""
    config = SnakeConfig(obs=obs)  # type: ignore[arg-type]
    tape = tapes.record(config, num_envs, 0)
    command = [sys.executable, __file__, "--serve", "--obs", obs, "--num-envs", str(num_envs)]
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE}
    with (
        closing(Player(tape, config, num_envs, 1)) as one,
        closing(Player(tape, config, num_envs, 2)) as two,
        subprocess.Popen(command, text=True, **pipes) as other,  # type: ignore[call-overload]
    ):
        other.stdout.readline()
        threads, machine, speeds = [], [], []
        for _ in range(rounds):
            alone, shared = one.play(), two.play()
            other.stdin.write("\n")
            other.stdin.flush()
            here, there = one.play(), float(other.stdout.readline())
            threads.append(alone / shared)
            machine.append(alone / here + alone / there)
            speeds.append(num_envs * len(tape.actions) / alone)
        other.stdin.close()
    return {
        "steps_per_s": statistics.median(speeds),
        "threads": statistics.median(threads),
        "threads_best": max(threads),
        "machine": statistics.median(machine),
        "of_machine": statistics.median(
            ours / best for ours, best in zip(threads, machine, strict=True)
        ),
        "rounds": rounds,
    }


def main() -> None:
    """Read the words of the command and print the figures."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--obs", default="flood")
    parser.add_argument("--num-envs", type=int, default=4096)
    parser.add_argument("--rounds", type=int, default=15)
    parser.add_argument("--json", action="store_true")
    parser.add_argument("--serve", action="store_true", help=argparse.SUPPRESS)
    args = parser.parse_args()
    if args.serve:
        serve(args.obs, args.num_envs)
        return
    figures = measure(args.obs, args.num_envs, args.rounds)
    if args.json:
        print(json.dumps(figures))
        return
    for name, value in figures.items():
        print(f"{name:14}{value:,.3f}")


if __name__ == "__main__":
    main()
