"""Wildfire for the page: the landscape, breaks as they appear, and the comparison of breaks."""

from __future__ import annotations

from base64 import b64encode
from collections.abc import Mapping
from typing import ClassVar

import numpy as np

from briskrl.core.types import JSON, StepBuffers
from briskrl.envs.wildfire.env import WildfireVecEnv
from briskrl.envs.wildfire.render import ground_colors
from briskrl.web.play.player.brain import PLACES, Brain
from briskrl.web.play.player.break_comparison import BreakComparison
from briskrl.web.play.player.game import Command, Numbers
from briskrl.web.play.player.wire import RequestError


class WildfireView:
    """See game.View."""

    kind: ClassVar[str] = "wildfire"
    rewinds: ClassVar[bool] = False
    ahead: ClassVar[int] = 600

    def __init__(self, env: WildfireVecEnv, brain: Brain) -> None:
        self._env = env
        self._comparison: BreakComparison | None = None
        self.commands: Mapping[str, Command] = {
            "compare": self._compare,
            "treat": self._treat,
            "clear": self._clear,
            "fire": self._fire,
        }

    def scene(self) -> dict[str, JSON]:
        """Size and budget."""
        height, width = self._env.pool.shape
        return {
            "height": height,
            "width": width,
            "budget": self._env.pool.budget,
            "per_step": self._env.config.cells_per_step,
            "fps": 6,
        }

    def begin(self, buffers: StepBuffers, seed: int) -> dict[str, JSON]:
        """The landscape."""
        member = self._env.pool.members[int(self._env.playing()[0])]
        self._comparison = BreakComparison(member, self._env.pool.budget, self._env.config)
        landscape = member.scene.landscape
        ground = np.clip(ground_colors(landscape), 0, 255).astype(np.uint8)
        return {
            "landscape": member.number,
            "cell_m": landscape.cell_m,
            "ground": b64encode(ground.tobytes()).decode(),
            "legal": b64encode(np.packbits(member.scene.legal).tobytes()).decode(),
            "fires": self._comparison.fires_as_json(),
        }

    def state(self, buffers: StepBuffers) -> dict[str, JSON]:
        """The breaks so far, and what the fires of the episode burn with them."""
        now = self._env.peek()
        return {
            "treated": np.flatnonzero(now["treated"][0]).tolist(),
            "spent": int(now["spent"][0]),
            "burned": round(float(now["burned_frac"][0]), PLACES),
            "untreated": round(float(now["burned_frac_untreated"][0]), PLACES),
        }

    def _compare(self, numbers: Numbers) -> dict[str, JSON]:
        """What the held-out fires burn with the agent's breaks so far, with DPV's and without."""
        comparison = self._playing()
        comparison.set_breaks("agent", self._env.treated()[0])
        return comparison.as_json()

    def _treat(self, numbers: Numbers) -> dict[str, JSON]:
        comparison = self._playing()
        comparison.toggle(numbers["cell"])
        return comparison.own_as_json()

    def _clear(self, numbers: Numbers) -> dict[str, JSON]:
        comparison = self._playing()
        comparison.clear()
        return comparison.own_as_json()

    def _fire(self, numbers: Numbers) -> dict[str, JSON]:
        return self._playing().arrivals(numbers["fire"])

    def _playing(self) -> BreakComparison:
        if self._comparison is None:
            raise RequestError("no-game", "The agent's game has not begun.")
        return self._comparison
