"""EnvPool's CartPole, all games stepped at once with random actions."""

from __future__ import annotations

from importlib.metadata import version

import envpool
import numpy as np
from runner_protocol import serve, settings


def main() -> None:
    """Step on request."""
    found = settings()
    count, steps = found["num_envs"], found["update_steps"]
    env = envpool.make_gymnasium(
        "CartPole-v1",
        num_envs=count,
        num_threads=found["threads"],
        max_episode_steps=found["max_steps"],
        seed=found["seed"],
    )
    env.reset()
    actions = np.random.default_rng(found["seed"]).integers(0, 2, (steps, count))

    def step(rounds: int) -> None:
        for _ in range(rounds):
            for action in actions:
                env.step(action)

    serve(f"envpool {version('envpool')}", step, rollout=count * steps)


if __name__ == "__main__":
    main()
