"""One game of a native family as a plain Gymnasium environment."""

from __future__ import annotations

from typing import Any

import gymnasium
import numpy as np

from briskrl.core.types import Array, Bools
from briskrl.envs.native import Infos, NativeVecEnv


class NativeEnv(gymnasium.Env[Array, np.int64]):
    """Row 0 of a batch; everything it returns is a copy.

    Args:
        games: A batch of one whose ended games stay ended (autoreset mode DISABLED).
    """

    def __init__(self, games: NativeVecEnv) -> None:
        self._games = games
        self.render_mode = games.render_mode
        self.observation_space = games.single_observation_space
        self.action_space = games.single_action_space

    def reset(
        self, *, seed: int | None = None, options: Infos | None = None
    ) -> tuple[Array, Infos]:
        """Begin a new episode."""
        super().reset(seed=seed)
        obs, _ = self._games.reset(seed=seed)
        return obs[0], {}

    def step(self, action: np.int64 | int) -> tuple[Array, float, bool, bool, Infos]:
        """Make one move; the info of an ending step holds the episode's record."""
        obs, reward, terminated, truncated, infos = self._games.step(np.array([action]))
        record = {key: array[0] for key, array in infos.items() if not key.startswith("_")}
        return obs[0], float(reward[0]), bool(terminated[0]), bool(truncated[0]), record

    def render(self) -> Any:
        """The game as text or as an image."""
        frames = self._games.render()
        return None if frames is None else frames[0]

    def action_masks(self) -> Bools:
        """Actions that do not end the game at once, (A,)."""
        mask: Bools = self._games.action_masks()[0]
        return mask

    def close(self) -> None:
        """Release everything; may be called twice."""
        self._games.close()
