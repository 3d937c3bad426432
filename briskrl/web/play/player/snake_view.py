"""Snake for the page: the board, what the network sees, and a game of the user beside it."""

from __future__ import annotations

from base64 import b64encode
from collections.abc import Mapping
from typing import ClassVar

import numpy as np

from briskrl.core.types import JSON, Array, StepBuffers
from briskrl.envs.snake.env import SnakeVecEnv
from briskrl.envs.snake.input_names import input_names, snake_action_names
from briskrl.web.play.player.brain import PLACES, Brain
from briskrl.web.play.player.game import Command
from briskrl.web.play.player.snake_duel import SnakeDuel, foods_of, position_of

MOST_INPUTS = 1 << 13
"""Planes with more numbers are not sent."""


class SnakeView:
    """See game.View."""

    kind: ClassVar[str] = "snake"
    rewinds: ClassVar[bool] = False
    ahead: ClassVar[int] = 600

    def __init__(self, env: SnakeVecEnv, brain: Brain) -> None:
        self._env = env
        self._duel = SnakeDuel(env.config, lambda seed: foods_of(env.config, brain.policy, seed))
        self.commands: Mapping[str, Command] = {
            "duel": lambda numbers: self._duel.begin(),
            "move": lambda numbers: self._duel.move(numbers["direction"]),
        }

    def scene(self) -> dict[str, JSON]:
        """Board and names."""
        config = self._env.config
        return {
            "height": config.height,
            "width": config.width,
            "inputs": list(input_names(config)),
            "input_shape": list(self._env.env_spec.obs.shape),
            "actions": list(snake_action_names(config)),
            "relative": config.actions == "relative",
            "fps": 12,
        }

    def begin(self, buffers: StepBuffers, seed: int) -> dict[str, JSON]:
        """The body at the start, head first; later states add a head and cut the tail."""
        self._duel.prepare(position_of(self._env), seed)
        return {"body": self._env.body(0).tolist()}

    def state(self, buffers: StepBuffers) -> dict[str, JSON]:
        """Head, length, food and the inputs of the network."""
        peeked = {name: int(values[0]) for name, values in self._env.peek().items()}
        return {
            "head": peeked["head"],
            "length": peeked["length"],
            "food": peeked["food"],
            "heading": peeked["heading"],
            "score": peeked["score"],
            **self._inputs(buffers.obs[0]),
        }

    def _inputs(self, obs: Array) -> dict[str, JSON]:
        if obs.ndim == 1:
            return {"obs": np.round(obs.astype(np.float64), PLACES).tolist()}
        if obs.size > MOST_INPUTS:
            return {}
        bright = obs if obs.dtype == np.uint8 else np.round(obs * 255).astype(np.uint8)
        return {"planes": b64encode(bright.tobytes()).decode()}
