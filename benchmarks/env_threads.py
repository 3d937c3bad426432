"""Speedup of `brisk bench env` by a second thread, and the best speedup the machine allows.

One thread, two threads, and two processes of one thread each alternate on the same recorded games.
Ratios are medians over the rounds, by wall time. `machine` is the speedup of two processes, which
share nothing and are therefore an upper bound for two threads.

    python benchmarks/env_threads.py --obs flood --num-envs 4096
"""

from __future__ import annotations

import argparse
import json
import sys
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from typing import Any

from briskrl.bench.compare import PairedComparison
from briskrl.bench.process import BenchProcess, open_answers
from briskrl.bench.recorded_play import Recording, record_snake, replay
from briskrl.bench.stopwatch import Stopwatch
from briskrl.core.types import StepBuffers
from briskrl.envs.snake.config import SnakeConfig
from briskrl.envs.snake.env import SnakeVecEnv


class Player:
    """Games that replay a recording."""

    def __init__(
        self, recording: Recording, config: SnakeConfig, num_envs: int, threads: int
    ) -> None:
        self._recording = recording
        self._env = SnakeVecEnv(num_envs, config=config, threads=threads)
        self._out = StepBuffers.allocate(self._env.env_spec, num_envs)
        self.steps = num_envs * len(recording.actions)
        self.play()

    def play(self) -> float:
        """Replay once; returns steps per second of wall time."""
        watch = Stopwatch()
        replay(self._recording, self._env, self._out, watch)
        return self.steps / watch.wall_s

    def close(self) -> None:
        """Release the games."""
        self._env.close()


def serve(config: SnakeConfig, num_envs: int) -> None:
    """Replay once per line on standard input, and answer with the rate."""
    answers = open_answers()
    with closing(Player(record_snake(config, num_envs, 0), config, num_envs, 1)) as player:
        print("{}", file=answers, flush=True)
        for _ in sys.stdin:
            print(json.dumps({"rate": player.play()}), file=answers, flush=True)


def measure(config: SnakeConfig, num_envs: int, rounds: int) -> dict[str, float]:
    """Compare one thread, two threads and two processes; returns medians over the rounds."""
    recording = record_snake(config, num_envs, 0)
    options = ["--serve", "--obs", config.obs, "--num-envs", str(num_envs)]
    with (
        closing(Player(recording, config, num_envs, 1)) as one,
        closing(Player(recording, config, num_envs, 2)) as two,
        BenchProcess([sys.executable, __file__, *options]) as other,
        ThreadPoolExecutor(1) as executor,
    ):

        def play_in_both() -> float:
            answer = executor.submit(other.request, "")
            return one.play() + float(answer.result()["rate"])

        comparison = PairedComparison(one=one.play, two=two.play, processes=play_in_both)
        comparison.take_turns(rounds)
    ratios = [two / one for one, two in zip(*list(comparison.rates.values())[:2], strict=True)]
    return {
        "steps_per_s": comparison.median("one"),
        "threads": comparison.median_ratio("two", "one"),
        "threads_best": max(ratios),
        "machine": comparison.median_ratio("processes", "one"),
        "of_machine": comparison.median_ratio("two", "processes"),
        "rounds": rounds,
    }


def main() -> None:
    """Parse the arguments and print the figures."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--obs", default="flood", help="observation mode of Snake")
    parser.add_argument("--num-envs", type=int, default=4096, help="games stepped together")
    parser.add_argument("--rounds", type=int, default=15, help="replays of each variant")
    parser.add_argument("--json", action="store_true", help="print one JSON object")
    parser.add_argument("--serve", action="store_true", help=argparse.SUPPRESS)
    args = parser.parse_args()
    obs: Any = args.obs
    config = SnakeConfig(obs=obs)
    if args.serve:
        serve(config, args.num_envs)
        return
    figures = measure(config, args.num_envs, args.rounds)
    if args.json:
        print(json.dumps(figures))
        return
    for name, value in figures.items():
        print(f"{name:14}{value:,.3f}")


if __name__ == "__main__":
    main()
