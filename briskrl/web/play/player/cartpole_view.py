"""CartPole for the page: where the cart is and how the pole leans."""

from __future__ import annotations

from collections.abc import Mapping
from typing import ClassVar

from briskrl.core.types import JSON, StepBuffers
from briskrl.envs.cartpole.env import CartPoleVecEnv
from briskrl.envs.cartpole.kernels.step import ANGLE_LIMIT, HALF_POLE, X_LIMIT
from briskrl.web.play.player.brain import PLACES, Brain
from briskrl.web.play.player.game import Command

NAMES = ("position", "velocity", "angle", "angular velocity")


class CartPoleView:
    """See game.View."""

    kind: ClassVar[str] = "cartpole"
    rewinds: ClassVar[bool] = False
    ahead: ClassVar[int] = 600

    def __init__(self, env: CartPoleVecEnv, brain: Brain) -> None:
        self._env = env
        self.commands: Mapping[str, Command] = {}

    def scene(self) -> dict[str, JSON]:
        """The track and the pole."""
        return {
            "x_limit": float(X_LIMIT),
            "angle_limit": float(ANGLE_LIMIT),
            "pole": 2 * float(HALF_POLE),
            "inputs": list(NAMES),
            "actions": ["left", "right"],
            "fps": 50,
        }

    def begin(self, buffers: StepBuffers, seed: int) -> dict[str, JSON]:
        """Nothing stays the same."""
        return {}

    def state(self, buffers: StepBuffers) -> dict[str, JSON]:
        """Position, velocity, angle and angular velocity."""
        now = self._env.peek()["state"][0]
        return {"obs": [round(number, PLACES) for number in now.tolist()]}
