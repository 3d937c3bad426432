"""Our CartPole as a process that is measured beside other libraries' (see `runners`).

Arguments: the settings follow, as JSON.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from briskrl import __version__
from briskrl.core.types import StepBuffers
from briskrl.envs.cartpole.config import CartPoleConfig
from briskrl.envs.make import make_env


class Games:
    """Games that are stepped by random actions, the same in every round.

    Args:
        settings: See `stepping`.
    """

    def __init__(self, settings: dict[str, Any]) -> None:
        count = settings["num_envs"]
        config = CartPoleConfig(max_steps=settings["max_steps"])
        self._env = make_env("cartpole", count, config, settings["threads"])
        self._out = StepBuffers.allocate(self._env.env_spec, count)
        self._env.start(settings["seed"], self._out)
        rng = np.random.default_rng(settings["seed"])
        self._actions = rng.integers(0, 2, (settings["update_steps"], count))

    def step(self, rounds: int) -> None:
        """Take every action of the table so many times."""
        for _ in range(rounds):
            for action in self._actions:
                self._env.step_into(action, self._out)
            # As many episodes end as may not be kept for later.
            self._env.drain_stats()


def main() -> None:
    """Step by orders."""
    from runner_protocol import serve, settings

    found = settings()
    rollout = found["num_envs"] * found["update_steps"]
    serve(f"briskrl {__version__}", Games(found).step, rollout=rollout)


if __name__ == "__main__":
    main()
