"""Our PPO training loop as a runner; arguments: a config file and the run folder to create."""

from __future__ import annotations

import sys
from pathlib import Path

from runner_protocol import serve

from briskrl import __version__
from briskrl.bench.train_loop import BenchTrainLoop
from briskrl.training.resolve import load_config


class Training:
    """The loop in rounds of a rollout and the learning from it.

    Args:
        loop: Not yet prepared; the first round prepares it.
    """

    def __init__(self, loop: BenchTrainLoop) -> None:
        self._loop = loop
        self._ready = False

    def train(self, rounds: int) -> float | None:
        """Train a number of rounds; returns the mean return of recent episodes."""
        if not self._ready:
            self._ready = True
            # Preparing ends with the first updates, which is one round.
            self._loop.prepare()
            rounds -= 1
        self._loop.train_rounds(rounds)
        return self._loop.recent.mean_return


def main(config: str, folder: str) -> None:
    """Train on request."""
    settings = load_config(config)
    loop = BenchTrainLoop(settings, Path(folder))
    rollout = settings.num_envs * settings.algo_config.update_steps
    training = Training(loop)
    serve(f"briskrl {__version__}", training.train, rollout=rollout, note=lambda: loop.engine)


if __name__ == "__main__":
    main(*sys.argv[1:])
