"""Demonstrations: what a baseline would do next in every episode of a batch."""

from __future__ import annotations

import numpy as np

from briskrl.core.rng import Streams
from briskrl.core.types import Ints
from briskrl.envs.wildfire.env import WildfireVecEnv, topk_masked
from briskrl.envs.wildfire.planning.baselines import plan_cells
from briskrl.envs.wildfire.pool import Prepared
from briskrl.envs.wildfire.simulate import Simulator


class Demonstrator:
    """Plays a baseline's plans through the normal environment.

    Transitions come out of `step_into` as an agent's do, so any memory can store them.

    Args:
        env: The batch to play in; the plans of all its landscapes are made at once, as many of
            each as the env's `teacher_plans` says. An episode follows one of them.
        baseline: Who plans, for example "dpv-iterative", or "dpv" for short.
    """

    def __init__(self, env: WildfireVecEnv, baseline: str) -> None:
        name = "dpv-iterative" if baseline == "dpv" else baseline
        cells = env.pool.shape[0] * env.pool.shape[1]
        self._env = env
        self._plans = env.config.teacher_plans
        self._urgency = np.zeros((len(env.pool.members) * self._plans, cells), np.float32)
        for n, urgency in enumerate(self._urgency):
            land, number = divmod(n, self._plans)
            plan = _plan(env, env.pool.members[land], name, number)
            urgency[plan] = 1 - np.arange(len(plan)) / len(plan)

    def actions(self) -> Ints:
        """The next cells, (N,) or (N, k): of each plan the first ones that are legal."""
        env = self._env
        which = env.playing() * self._plans + env.episode_keys() % self._plans
        urgency, mask = self._urgency[which], env.action_masks()
        count = env.config.cells_per_step
        if count == 1:
            cells: Ints = np.where(mask, urgency, -1.0).argmax(axis=1)
            return cells
        return topk_masked(urgency, mask, count)


def _plan(env: WildfireVecEnv, member: Prepared, baseline: str, number: int) -> Ints:
    """The cells of a landscape's plan `number`, in order; plan 0 is the baseline's usual one."""
    purpose = f"teacher {number}" if number else "training"
    return plan_cells(
        baseline,
        Simulator(member.scene),
        member.fires(purpose, env.config.teacher_fires or env.config.plan_fires),
        env.pool.budget,
        Streams(member.streams_seed)[f"teacher {number}" if number else "plan"],
    )
