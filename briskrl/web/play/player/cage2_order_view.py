"""CAGE-2 with a workflow for the page: the network, and the order that blue has to follow."""

from __future__ import annotations

from typing import ClassVar

from briskrl.core.types import JSON, StepBuffers
from briskrl.envs.cage2 import scenario as s
from briskrl.envs.cage2.env import Cage2VecEnv
from briskrl.envs.cage2.workflow_task import Cage2Task
from briskrl.envs.workflow.env import WorkflowVecEnv
from briskrl.web.play.player.brain import Brain
from briskrl.web.play.player.cage2_view import Cage2View


class Cage2OrderView:
    """See game.View. The network is drawn as without a workflow."""

    kind: ClassVar[str] = Cage2View.kind
    rewinds: ClassVar[bool] = Cage2View.rewinds
    ahead: ClassVar[int] = Cage2View.ahead

    def __init__(self, env: WorkflowVecEnv, brain: Brain) -> None:
        assert isinstance(env.inner, Cage2VecEnv)
        self._env = env
        self._network = Cage2View(env.inner, brain)
        self.commands = self._network.commands

    def scene(self) -> dict[str, JSON]:
        """Hosts and names, and the hosts of each category."""
        task = self._env.task
        # Tasks of users define categories that need not be groups of hosts.
        members = task.hosts if isinstance(task, Cage2Task) else {}
        places = {
            name: [s.HOST_NAMES.index(host) for host in hosts] for name, hosts in members.items()
        }
        return {**self._network.scene(), "categories": places}

    def begin(self, buffers: StepBuffers, seed: int) -> dict[str, JSON]:
        """The attacker, and the categories in the order that holds during this game."""
        return {
            **self._network.begin(buffers, seed),
            "order": list(self._env.caption(0).names),
        }

    def state(self, buffers: StepBuffers) -> dict[str, JSON]:
        """The network; which places of the order are open, and how it was followed so far."""
        caption = self._env.caption(0)
        return {
            **self._network.state(buffers),
            "open": list(caption.opened),
            "fixes": [caption.ok, caption.judged],
        }
