"""Names of the numbers and planes that a Snake policy sees, for people who look at them."""

from __future__ import annotations

from briskrl.envs.snake.config import SnakeConfig

_WAYS = ("up", "right", "down", "left")
_TURNS = ("straight", "right", "left")
FEATURES = (
    *(f"danger {turn}" for turn in _TURNS),
    *(f"heading {way}" for way in _WAYS),
    *(f"food {way}" for way in _WAYS),
)
FLOOD = tuple(f"space {turn}" for turn in _TURNS)
EXTENDED = (
    *(f"open sides {turn}" for turn in _TURNS),
    *(f"tail {way}" for way in _WAYS),
    *("tail in reach", "tail distance", "length"),
)
PLANES = ("head", "body", "board", "food", "age")
RELATIVE, ABSOLUTE = _TURNS, _WAYS


def input_names(config: SnakeConfig) -> tuple[str, ...]:
    """Names of the features, or of the planes of a grid, in the order of the observation."""
    if config.obs == "grid":
        reachable = ("reachable",) if config.grid_reachable else ()
        outside = ("outside",) if config.grid_center == "head" else ()
        return (*PLANES, *reachable, *outside)
    more = {"features": (), "flood": FLOOD, "extended": (*FLOOD, *EXTENDED)}
    return (*FEATURES, *more[config.obs])


def snake_action_names(config: SnakeConfig) -> tuple[str, ...]:
    """Names of the actions."""
    return RELATIVE if config.actions == "relative" else ABSOLUTE
