"""Ids of the native environments for `gymnasium.make` and `gymnasium.make_vec`.

`import briskrl` registers them if Gymnasium has been imported before; otherwise call
`briskrl.register_envs()`. Registering imports no environment.
"""

from __future__ import annotations

from typing import Any, NamedTuple


class GymId(NamedTuple):
    """One id; Gymnasium knows it as briskrl/NAME."""

    name: str
    family: str
    """Folder of the environment."""
    prefix: str
    """Name of its classes, without Env and VecEnv."""
    settings: dict[str, Any]
    """Fields of its config."""
    alias: str = ""
    """A second id without a namespace."""

    @property
    def id(self) -> str:
        """The id with its namespace."""
        return f"briskrl/{self.name}"


def _snake(obs: str) -> GymId:
    name = f"Snake-10x10-{obs}-v0"
    return GymId(name, "snake", "Snake", {"height": 10, "width": 10, "obs": obs}, alias=name)


def _cage2(name: str, edition: str) -> GymId:
    return GymId(name, "cage2", "Cage2", {"edition": edition}, alias=name)


def _wildfire(name: str, size: int, **settings: Any) -> GymId:
    settings |= {"height": size, "width": size}
    return GymId(name, "wildfire", "Wildfire", settings, alias=name)


GYM_IDS = (
    GymId("Snake-v0", "snake", "Snake", {}),
    _snake("features"),
    _snake("flood"),
    _snake("grid"),
    GymId("CartPole-v1", "cartpole", "CartPole", {}, alias="BriskCartPole-v1"),
    _cage2("Cage2-v0", "current"),
    _cage2("Cage2-competition-v0", "competition"),
    GymId("OrderedVisit-v0", "ordered_visit", "OrderedVisit", {}),
    _wildfire("FuelBreak20-v0", 20),
    _wildfire("FuelBreak40-v0", 40),
    _wildfire("FuelBreakLandfire50-v0", 50, source="landfire"),
)


def register_envs() -> None:
    """Register every id that Gymnasium does not know yet; may be called any number of times."""
    import gymnasium

    for entry in GYM_IDS:
        module = f"briskrl.envs.{entry.family}.env"
        for name in filter(None, (entry.id, entry.alias)):
            if name not in gymnasium.registry:
                gymnasium.register(
                    id=name,
                    entry_point=f"{module}:{entry.prefix}Env",
                    vector_entry_point=f"{module}:{entry.prefix}VecEnv",
                    kwargs=dict(entry.settings),
                )
