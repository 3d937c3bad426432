"""Gymnasium's door to the native environments: ids for `gymnasium.make` and `gymnasium.make_vec`.

`import briskrl` is enough to register them (see `briskrl.envs.announce`); the environments
themselves are imported when one is made.
"""

from __future__ import annotations

from typing import Any

import gymnasium

_MODULE = "briskrl.envs.snake.env"
_CARTPOLE = "briskrl.envs.cartpole.env"
CARTPOLE_ID = "BriskCartPole-v1"
_CAGE2 = "briskrl.envs.cage2.env"
CAGE2_IDS = {"Cage2-v0": "current", "Cage2-competition-v0": "competition"}
_WILDFIRE = "briskrl.envs.wildfire.env"
FUEL_BREAKS: dict[str, dict[str, Any]] = {
    "FuelBreak20-v0": {"height": 20, "width": 20},
    "FuelBreak40-v0": {"height": 40, "width": 40},
    "FuelBreakLandfire50-v0": {"height": 50, "width": 50, "source": "landfire"},
}
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
    for name, edition in CAGE2_IDS.items():
        if name not in gymnasium.registry:
            gymnasium.register(
                id=name,
                entry_point=f"{_CAGE2}:Cage2Env",
                vector_entry_point=f"{_CAGE2}:Cage2VecEnv",
                kwargs={"edition": edition},
            )
    for name, settings in FUEL_BREAKS.items():
        if name not in gymnasium.registry:
            gymnasium.register(
                id=name,
                entry_point=f"{_WILDFIRE}:WildfireEnv",
                vector_entry_point=f"{_WILDFIRE}:WildfireVecEnv",
                kwargs=settings,
            )
