"""The teacher: plays the plans of a baseline in every episode of a batch."""

from __future__ import annotations

import numpy as np

from briskrl.core.rng import Streams
from briskrl.core.types import Ints
from briskrl.envs.wildfire.env import WildfireVecEnv, topk_masked
from briskrl.envs.wildfire.landscape_pool import Prepared
from briskrl.envs.wildfire.planning.baselines import plan_cells
from briskrl.envs.wildfire.simulate import Simulator

JUDGING_FIRES = 1024
"""Fires that plans are selected with; neither planning nor evaluation uses them."""


class Demonstrator:
    """Plays a baseline's plans through the normal environment.

    Transitions come from `step_into` as for an agent, so any memory can store them.

    Args:
        env: The batch to play in. The plans of all its landscapes are made at once and selected as
            its `teacher_*` settings say; an episode follows one of them.
        baseline: The planner, for example "dpv-iterative", or "dpv" for short.
    """

    def __init__(self, env: WildfireVecEnv, baseline: str) -> None:
        name = "dpv-iterative" if baseline == "dpv" else baseline
        config, members = env.config, env.pool.members
        self._env = env
        self._plans = min(config.teacher_plans, config.teacher_keep or config.teacher_plans)
        cells = env.pool.shape[0] * env.pool.shape[1]
        self._urgency = np.zeros((len(members), self._plans, cells), np.float32)
        for urgencies, member in zip(self._urgency, members, strict=True):
            plans = [_plan(env, member, name, number) for number in range(config.teacher_plans)]
            if self._plans < len(plans):
                plans = _best(member, plans, self._plans)
            for urgency, plan in zip(urgencies, plans, strict=True):
                urgency[plan] = 1 - np.arange(len(plan)) / len(plan)

    def actions(self) -> Ints:
        """The next cells, (N,) or (N, k): of each plan the first ones that are legal."""
        env = self._env
        urgency = self._urgency[env.playing(), env.episode_keys() % self._plans]
        mask, count = env.action_masks(), env.config.cells_per_step
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


def _best(member: Prepared, plans: list[Ints], count: int) -> list[Ints]:
    """The plans with the least burned value, best first."""
    simulator, fires = Simulator(member.scene), member.fires("teacher", JUDGING_FIRES)
    treated = np.zeros((len(plans), member.scene.landscape.cells), np.bool_)
    for row, plan in zip(treated, plans, strict=True):
        row[plan] = True
    burned = np.array([simulator.burned_frac(fires, row) for row in treated])
    return [plans[n] for n in np.argsort(burned, kind="stable")[:count]]
