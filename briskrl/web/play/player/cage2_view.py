"""CAGE-2 for the page: the hosts as they are and as blue sees them, and the moves of both sides."""

from __future__ import annotations

from collections.abc import Mapping
from typing import ClassVar

import numpy as np

from briskrl.core.types import JSON, StepBuffers
from briskrl.envs.cage2 import render
from briskrl.envs.cage2 import scenario as s
from briskrl.envs.cage2.env import Cage2VecEnv
from briskrl.web.play.player.brain import Brain
from briskrl.web.play.player.game import Command

_DECOY_BITS = 1 << np.arange(len(s.DECOY_NAMES))


class Cage2View:
    """See game.View."""

    kind: ClassVar[str] = "cage2"
    rewinds: ClassVar[bool] = True
    ahead: ClassVar[int] = 600

    def __init__(self, env: Cage2VecEnv, brain: Brain) -> None:
        self._env = env
        self.commands: Mapping[str, Command] = {}

    def scene(self) -> dict[str, JSON]:
        """Hosts and names."""
        return {
            "hosts": [
                {
                    "name": host.name,
                    "zone": host.subnet,
                    "system": host.system,
                    "cost": host.confidentiality,
                    "link": None if host.link is None else s.HOST_NAMES.index(host.link),
                }
                for host in s.HOSTS
            ],
            "zones": list(render.ZONES),
            "agents": list(render.AGENTS),
            "decoys": list(s.DECOY_NAMES),
            "actions": list(self._env.action_names),
            "length": self._env.config.length,
            "fps": 4,
        }

    def begin(self, buffers: StepBuffers, seed: int) -> dict[str, JSON]:
        """The attacker."""
        return {"red": render.AGENTS[self._env.truth().red_agent[0]]}

    def state(self, buffers: StepBuffers) -> dict[str, JSON]:
        """The truth, blue's view, and the last moves in words."""
        truth = self._env.truth()
        shown = self._env.shown(0)
        blue, red = render.last_targets(truth)
        return {
            "step": int(truth.steps[0]),
            "access": truth.access[0].tolist(),
            "belief": truth.compromise[0].tolist(),
            "activity": [render.activity_of(shown, host) for host in range(s.NUM_HOSTS)],
            "decoys": ((truth.decoys[0] > 0) @ _DECOY_BITS).tolist(),
            "files": truth.files[0].tolist(),
            "known": int(truth.known_ip[0]),
            "service": int(truth.ot_running[0]),
            "blue": blue,
            "red": red,
            "moves": render.last_actions(truth),
        }
