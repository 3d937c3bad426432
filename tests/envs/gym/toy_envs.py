"""Small environments for tests, registered under the namespace brisktest."""

from __future__ import annotations

from typing import Any, ClassVar

import gymnasium
import numpy as np
from gymnasium import spaces


class World(gymnasium.Env[Any, Any]):
    """A counter that ends at random; subclasses choose spaces and observations."""

    observation_space: spaces.Space[Any] = spaces.Box(-1, 1, (2,), np.float32)
    action_space: spaces.Space[Any] = spaces.Discrete(3)

    def reset(self, *, seed: int | None = None, options: Any = None) -> tuple[Any, dict[str, Any]]:
        super().reset(seed=seed)
        self.at = float(self.np_random.random())
        self.count = 0
        return self.observe(), self.info()

    def step(self, action: Any) -> tuple[Any, float, bool, bool, dict[str, Any]]:
        assert self.action_space.contains(action), action
        self.count += 1
        self.at = float(self.np_random.random())
        reward = self.at + float(np.sum(action))
        return self.observe(), reward, self.at < 0.1, False, self.info()

    def observe(self) -> Any:
        return np.array([self.at, self.count / 100], np.float32)

    def info(self) -> dict[str, Any]:
        return {}


class DictWorld(World):
    observation_space = spaces.Dict(
        {
            "b": spaces.Discrete(3, start=5),
            "a": spaces.Box(-1, 1, (2, 2), np.float64),
            "inner": spaces.Tuple((spaces.MultiBinary(2), spaces.MultiDiscrete([2, 3]))),
        }
    )

    def observe(self) -> Any:
        return {
            "a": np.array([[self.at, 0.25], [self.count / 100, -1]]),
            "b": np.int64(5 + self.count % 3),
            "inner": (
                np.array([self.count % 2, 1], np.int8),
                np.array([self.count % 2, self.count % 3]),
            ),
        }


class ImageWorld(World):
    metadata: ClassVar[dict[str, Any]] = {"render_modes": ["rgb_array"], "render_fps": 10}
    observation_space = spaces.Box(0, 255, (4, 5, 3), np.uint8)

    def __init__(self, render_mode: str | None = None) -> None:
        self.render_mode = render_mode

    def render(self) -> Any:
        assert self.render_mode == "rgb_array"
        return self.observe().repeat(8, axis=0).repeat(8, axis=1)

    def observe(self) -> Any:
        image = np.zeros((4, 5, 3), np.uint8)
        image[self.count % 4, self.count % 5, self.count % 3] = 1 + int(self.at * 200)
        return image


class MultiWorld(World):
    action_space = spaces.MultiDiscrete([3, 2], start=[1, 0])


class ShiftedWorld(World):
    action_space = spaces.Discrete(4, start=-2)


class MaskInfoWorld(World):
    """Provides action masks in its infos."""

    def legal(self) -> np.ndarray:
        return np.array([True, self.count % 2 == 0, False], np.int8)

    def info(self) -> dict[str, Any]:
        return {"action_mask": self.legal()}


class MaskMethodWorld(MaskInfoWorld):
    def info(self) -> dict[str, Any]:
        return {}

    def action_masks(self) -> np.ndarray:
        return self.legal().astype(bool)


class FaultyWorld(World):
    """Fails in its fifth step."""

    def __init__(self, fault: str = "raise") -> None:
        self.fault = fault

    def step(self, action: Any) -> tuple[Any, Any, bool, bool, dict[str, Any]]:
        obs, reward, _, _, info = super().step(action)
        if self.count < 5:
            return obs, reward, False, False, info
        if self.fault == "raise":
            raise RuntimeError("the dragon escaped")
        wrong: dict[str, tuple[Any, Any]] = {
            "nan": (np.array([np.nan, 0], np.float32), reward),
            "inf": (np.array([0, np.inf], np.float32), reward),
            "shape": (np.zeros(3, np.float32), reward),
            "scalar": (np.float32(1), reward),
            "reward": (obs, float("nan")),
            "text": (obs, "much"),
        }
        obs, reward = wrong[self.fault]
        return obs, reward, False, False, info


class HiddenWorld(World):
    """Keeps part of its state in an object that cannot be saved as data."""

    class Memory:
        def __init__(self) -> None:
            self.value = 0.0

    def __init__(self) -> None:
        self.memory = self.Memory()

    def reset(self, *, seed: int | None = None, options: Any = None) -> tuple[Any, dict[str, Any]]:
        if seed is not None:
            self.memory.value = 0.0
        return super().reset(seed=seed, options=options)

    def observe(self) -> Any:
        self.memory.value += 0.001
        return np.array([self.at, self.memory.value], np.float32)


class GlobalWorld(World):
    """Seems to be restorable, but its observations come from a counter outside of it."""

    seen: ClassVar[list[int]] = [0]

    def observe(self) -> Any:
        self.seen[0] += 1
        return np.array([self.at, self.seen[0] % 97 / 97], np.float32)


class SpeakingWorld(HiddenWorld):
    """Like HiddenWorld, but with get_state and set_state."""

    def get_state(self) -> dict[str, Any]:
        return {"memory": self.memory.value, "at": self.at, "count": self.count}

    def set_state(self, state: dict[str, Any]) -> None:
        self.memory.value, self.at, self.count = state["memory"], state["at"], state["count"]


class TextWorld(World):
    observation_space = spaces.Text(5)


WORLDS = [value for value in list(globals().values()) if isinstance(value, type)]
for _world in WORLDS:
    if issubclass(_world, World):
        gymnasium.register(
            f"brisktest/{_world.__name__}-v0",
            entry_point=f"tests.envs.gym.toy_envs:{_world.__name__}",
            max_episode_steps=20,
        )
