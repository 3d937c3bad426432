"""The teacher: plays the plans of a baseline in every episode of a batch."""

from __future__ import annotations

import numpy as np

from briskrl.core.rng import Streams
from briskrl.core.types import Array, Ints
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
        env: The batch to play in. The plans of all its landscapes are made before the first game
            and selected as its `teacher_*` settings say; an episode follows one of them.
        baseline: The planner, for example "dpv-iterative", or "dpv" for short.
    """

    def __init__(self, env: WildfireVecEnv, baseline: str) -> None:
        self._name = "dpv-iterative" if baseline == "dpv" else baseline
        config, members = env.config, env.pool.members
        self._env = env
        self._made: list[Ints] = []
        """Plans so far, landscape by landscape."""
        self._kept = min(config.teacher_plans, config.teacher_keep or config.teacher_plans)
        cells = env.pool.shape[0] * env.pool.shape[1]
        self._urgency = np.zeros((len(members), self._kept, cells), np.float32)

    def prepare(self) -> bool:
        """Make the next plan; False if all are made."""
        env = self._env
        index, number = divmod(len(self._made), env.config.teacher_plans)
        if index == len(env.pool.members):
            return False
        self._add(_plan(env, env.pool.members[index], self._name, number))
        return True

    def _add(self, plan: Ints) -> None:
        """Add a plan, and select those of a landscape when it is the last one there."""
        self._made.append(plan)
        index, rest = divmod(len(self._made), self._env.config.teacher_plans)
        if rest == 0:
            plans = self._made[-self._env.config.teacher_plans :]
            if self._kept < len(plans):
                plans = _best(self._env.pool.members[index - 1], plans, self._kept)
            for urgency, cells in zip(self._urgency[index - 1], plans, strict=True):
                urgency[cells] = 1 - np.arange(len(cells)) / len(cells)

    def state(self) -> dict[str, Array]:
        """The plans so far as rows of cells, filled up with -1."""
        plans = np.full((len(self._made), self._env.pool.budget), -1, np.int64)
        for row, plan in zip(plans, self._made, strict=True):
            row[: len(plan)] = plan
        return {"plans": plans}

    def load_state(self, arrays: dict[str, Array]) -> None:
        """Continue with saved plans; plans that do not fit these landscapes are made again."""
        plans, cells = arrays.get("plans", np.zeros(0)), self._urgency.shape[2]
        most = len(self._env.pool.members) * self._env.config.teacher_plans
        fits = plans.ndim == 2 and len(plans) <= most and np.issubdtype(plans.dtype, np.integer)
        if fits and np.all((plans >= -1) & (plans < cells)):
            for plan in plans:
                self._add(plan[plan >= 0])

    def actions(self) -> Ints:
        """The next cells, (N,) or (N, k): of each plan the first ones that are legal."""
        while self.prepare():
            pass
        env = self._env
        urgency = self._urgency[env.playing(), env.episode_keys() % self._kept]
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
