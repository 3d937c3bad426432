"""Our training loop as a process that is measured beside other libraries' (see `runners`).

Arguments: the file of a config and the run folder to make follow.
"""

from __future__ import annotations

import sys
from pathlib import Path

from briskrl import __version__
from briskrl.bench.train_loop import BenchTrainLoop
from briskrl.training.resolve import load_config


class Rounds:
    """The loop, in rounds of a rollout and all that is learnt from it.

    Args:
        loop: Not yet prepared; the first round does that too.
    """

    def __init__(self, loop: BenchTrainLoop) -> None:
        self._loop = loop
        self._ready = False

    def train(self, rounds: int) -> float | None:
        """Train so many rounds; returns the mean return of the newest episodes."""
        if not self._ready:
            self._ready = True
            # Updates begin with the first full rollout.
            self._loop.prepare()
            rounds -= 1
        self._loop.advance(rounds)
        return self._loop.recent.mean_return


def main(config: str, folder: str) -> None:
    """Train by orders."""
    from runner_protocol import serve

    settings = load_config(config)
    loop = BenchTrainLoop(settings, Path(folder))
    rollout = settings.num_envs * settings.algo_config.update_steps
    rounds = Rounds(loop)
    serve(f"briskrl {__version__}", rounds.train, rollout=rollout, note=lambda: loop.engine)


if __name__ == "__main__":
    main(*sys.argv[1:])
