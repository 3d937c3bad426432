"""A network that is driven by text commands."""

from __future__ import annotations

from typing import Any

import numpy as np

from briskrl.core.types import StepBuffers
from briskrl.envs.cage2 import scenario as s
from briskrl.envs.cage2.env import Cage2VecEnv
from briskrl.envs.cage2.ground_truth import Truth
from briskrl.envs.cage2.players import activity, compromise
from briskrl.envs.cage2.replay import Choices, replay_step, set_red

ACTIVITY = ("None", "Scan", "Exploit")
COMPROMISE = ("No", "Unknown", "User", "Privileged")
KINDS = {
    "discover": "DiscoverRemoteSystems",
    "scan": "DiscoverNetworkServices",
    "exploit": "ExploitRemoteService",
    "escalate": "PrivilegeEscalate",
    "impact": "Impact",
}


class Network:
    """A network, by default with a sleeping attacker that takes the given actions."""

    def __init__(self, red: str = "sleep", **settings: Any) -> None:
        self.env = Cage2VecEnv(1, red="sleep", **{"length": 1000} | settings)
        self.out = StepBuffers.allocate(self.env.env_spec, 1)
        self.env.start(4, self.out)
        set_red(self.env, s.REDS.index(red))

    def step(
        self,
        blue: str = "Sleep",
        red: str = "",
        *,
        by: str = "",
        detected: bool = True,
        green: str = "",
        removable: bool = True,
    ) -> float:
        """Play a step; red is for example "exploit User4", by an exploit. Returns the reward."""
        kind, _, target = red.partition(" ")
        names = s.SUBNETS if kind == "discover" else s.HOST_NAMES
        choices = Choices(
            red_action=s.RED_KINDS.index(KINDS[kind]) if red else 0,
            red_target=names.index(target) if red else -1,
            red_exploit=s.EXPLOIT_NAMES.index(by) if by else -2,
            detected=int(detected),
            esc_pick=int(removable),
            green_target=s.HOST_NAMES.index(green) if green else -1,
        )
        replay_step(self.env, np.array([s.action_index(blue)]), choices, self.out)
        return round(float(self.out.reward[0]), 1)

    def follow(self, blue: str = "Sleep", **chance: Any) -> tuple[str, str]:
        """Let the attacker act by its own rules; returns its action and target."""
        replay_step(self.env, np.array([s.action_index(blue)]), Choices(**chance), self.out)
        truth = self.truth
        kind, target = int(truth.red_action[0]), int(truth.red_target[0])
        names = s.SUBNETS if kind == 1 else s.HOST_NAMES
        return s.RED_KINDS[kind], names[target] if kind else ""

    def take(self, host: str, by: str, **options: Any) -> float:
        """Scan a host and exploit it."""
        self.step(red=f"scan {host}")
        return self.step(red=f"exploit {host}", by=by, **options)

    @property
    def truth(self) -> Truth:
        return self.env.truth()

    def of(self, field: str, host: str) -> Any:
        """A field of the true state for one host."""
        return getattr(self.truth, field)[0, s.HOST_NAMES.index(host)]

    def seen(self, host: str) -> str:
        """The activity that blue sees on a host."""
        return ACTIVITY[activity(self.out.obs)[0, s.HOST_NAMES.index(host)]]

    def flag(self, host: str) -> str:
        """The compromise of a host in blue's table."""
        return COMPROMISE[compromise(self.out.obs)[0, s.HOST_NAMES.index(host)]]

    @property
    def red_result(self) -> str:
        return ("failed", "succeeded", "unknown")[self.truth.red_success[0]]

    @property
    def blue_result(self) -> str:
        return ("failed", "succeeded", "unknown")[self.truth.blue_success[0]]
