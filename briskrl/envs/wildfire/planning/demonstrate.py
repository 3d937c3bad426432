"""Demonstrations: what a baseline would do next in every episode of a batch."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from briskrl.core.types import Ints
from briskrl.envs.wildfire.config import Plan
from briskrl.envs.wildfire.env import WildfireVecEnv, topk_masked
from briskrl.envs.wildfire.pool import planned


class Demonstrator:
    """Plays a baseline's plans through the normal environment.

    Transitions come out of `step_into` as an agent's do, so any memory can store them.

    Args:
        env: The batch to play in; the plans of all its landscapes are made at once.
        baseline: Who plans, for example "dpv-iterative".
    """

    def __init__(self, env: WildfireVecEnv, baseline: Plan) -> None:
        config = replace(env.config, plan=baseline)
        cells = env.pool.shape[0] * env.pool.shape[1]
        self._env = env
        self._urgency = np.zeros((len(env.pool.members), cells), np.float32)
        for urgency, member in zip(self._urgency, env.pool.members, strict=True):
            plan = planned(config, member)
            urgency[plan] = 1 - np.arange(len(plan)) / len(plan)

    def actions(self) -> Ints:
        """The next cells, (N,) or (N, k): of each plan the first ones that are legal."""
        env = self._env
        urgency = self._urgency[env.peek()["landscape"]]
        count = env.config.cells_per_step
        cells = topk_masked(urgency, env.action_masks(), count)
        return cells[:, 0] if count == 1 else cells
