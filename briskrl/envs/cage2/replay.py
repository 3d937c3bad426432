"""Replay mode: steps with given random choices, to check recorded episodes.

A recording of the original simulator holds, for every step, blue's action and the random choices.
`replay_step` plays such a step and returns the choices that red's model allows. A recorded choice
must be among them, and everything that follows must be equal.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

from briskrl.core.types import Array, Ints, StepBuffers
from briskrl.envs.cage2.env import Cage2VecEnv
from briskrl.envs.cage2.kernels import layout as k
from briskrl.envs.cage2.kernels.step import replay

FREE = k.FREE
"""Leaves a choice random."""


@dataclass(frozen=True, slots=True)
class Choices:
    """Random choices in one step of N networks, (N,) each; those not given stay random."""

    red_action: ArrayLike = FREE
    """Index in scenario.RED_KINDS."""
    red_target: ArrayLike = FREE
    """Host, or subnet of a discovery; used where red_action is given."""
    red_exploit: ArrayLike = FREE
    """Exploit that red tries, if it has any."""
    detected: ArrayLike = FREE
    """Whether a reverse shell is seen: 0 or 1."""
    esc_pick: ArrayLike = FREE
    """Whether an escalation takes a removable session: 0 or 1."""
    green_target: ArrayLike = FREE
    """Host that the green user scans; -1 for none."""

    def table(self, num_envs: int) -> NDArray[np.int8]:
        """The choices as the kernels read them, (N, 6)."""
        table = np.empty((num_envs, 6), np.int8)
        for at, numbers in (
            (k.F_KIND, self.red_action),
            (k.F_TARGET, self.red_target),
            (k.F_EXPLOIT, self.red_exploit),
            (k.F_DETECTED, self.detected),
            (k.F_PICKED, self.esc_pick),
            (k.F_GREEN, self.green_target),
        ):
            table[:, at] = numbers
        return table


@dataclass(frozen=True, slots=True)
class Allowed:
    """Choices that red's model allows in a step, (N,) each."""

    action: Ints
    """Index in scenario.RED_KINDS."""
    targets: Ints
    """Mask of hosts (of subnets for a discovery), each equally likely; 0 for Sleep."""
    exploits: Ints
    """Mask of exploits that red could try on the target it attacked; 0 if it attacked none."""


def set_red(env: Cage2VecEnv, agents: ArrayLike) -> None:
    """Set the attackers (N,) of episodes that have just begun: indices in scenario.REDS."""
    env._i16[:, k.AGENT] = agents


def replay_step(env: Cage2VecEnv, actions: Array, choices: Choices, out: StepBuffers) -> Allowed:
    """Advance every network by one step with the given choices, writing all of `out`.

    Choices are not checked against the model; compare them with the returned ones.

    Args:
        env: Networks that have begun.
        actions: Blue's actions (N,).
        choices: The random choices.
        out: As for `step_into`.
    """
    env._check(out)
    allowed = np.zeros((env.num_envs, 3), np.int16)
    replay(
        (env._params, choices.table(env.num_envs), allowed),
        env._state,
        env._log.rows,
        np.ascontiguousarray(actions, np.int64),
        out.obs,
        out.reward,
        out.terminated,
        out.truncated,
        out.final_obs,
        0,
        env.num_envs,
        0,
        env._mode,
    )
    if out.mask is not None:
        env._write_mask(out.mask, final=False)
    action, targets, exploits = allowed.T.astype(np.int64)
    return Allowed(action, targets, exploits)
