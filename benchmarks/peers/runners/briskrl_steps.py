"""Our CartPole as a runner that steps with random actions."""

from __future__ import annotations

from typing import Any

import numpy as np

from briskrl import __version__
from briskrl.core.types import StepBuffers
from briskrl.envs.cartpole.config import CartPoleConfig
from briskrl.envs.make import make_env


class Games:
    """Games stepped with a table of random actions, the same in every round.

    Args:
        settings: See `measure_env_steps`.
    """

    def __init__(self, settings: dict[str, Any]) -> None:
        count = settings["num_envs"]
        config = CartPoleConfig(max_steps=settings["max_steps"])
        self.env = make_env("cartpole", count, config, settings["threads"])
        self.out = StepBuffers.allocate(self.env.env_spec, count)
        self.env.start(settings["seed"], self.out)
        rng = np.random.default_rng(settings["seed"])
        self._actions = rng.integers(0, 2, (settings["update_steps"], count))

    def step(self, rounds: int) -> None:
        """Take every action of the table `rounds` times."""
        for _ in range(rounds):
            for action in self._actions:
                self.env.step_into(action, self.out)
            # The log of ended episodes is bounded, so it is emptied in every round.
            self.env.drain_stats()


def main() -> None:
    """Step on request."""
    # Importing the protocol redirects standard output, which only a runner should do.
    from runner_protocol import serve, settings

    found = settings()
    rollout = found["num_envs"] * found["update_steps"]
    serve(f"briskrl {__version__}", Games(found).step, rollout=rollout)


if __name__ == "__main__":
    main()
