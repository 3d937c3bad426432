"""Gymnasium's door to the native environments: ids for `gymnasium.make` and `gymnasium.make_vec`.

`import briskrl` is enough to register them (see `briskrl.envs.announce`); the environments
themselves are imported when one is made.
"""

from __future__ import annotations

import gymnasium

_MODULE = "briskrl.envs.snake.env"
_CARTPOLE = "briskrl.envs.cartpole.env"
CARTPOLE_ID = "BriskCartPole-v1"
SNAKE_MODES = ("features", "flood", "grid")


def register() -> None:
    """Register every id that is not registered yet; may be called any number of times."""
    for mode in SNAKE_MODES:
        name = f"Snake-10x10-{mode}-v0"
        if name not in gymnasium.registry:
            gymnasium.register(
                id=name,
                entry_point=f"{_MODULE}:SnakeEnv",
                vector_entry_point=f"{_MODULE}:SnakeVecEnv",
                kwargs={"height": 10, "width": 10, "obs": mode},
            )
    if CARTPOLE_ID not in gymnasium.registry:
        gymnasium.register(
            id=CARTPOLE_ID,
            entry_point=f"{_CARTPOLE}:CartPoleEnv",
            vector_entry_point=f"{_CARTPOLE}:CartPoleVecEnv",
        )
