"""Replay mode: steps with given random choices, to check recorded episodes.

A recording of the original simulator holds, for every step, blue's action and the random choices.
`replay_step` plays such a step and returns the choices that red's model allows. A recorded choice
must be among them, and everything that follows must be equal.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

from briskrl.core.errors import InvalidStateError
from briskrl.core.state_checks import check_range
from briskrl.core.types import Array, Ints, StepBuffers
from briskrl.envs.cage2 import scenario as s
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
        """The choices as the kernels read them, (N, 6).

        Raises:
            InvalidStateError: There is no such action, host or exploit.
        """
        table = np.empty((num_envs, 6), np.int8)
        for at, name, high in (
            (k.F_KIND, "red_action", k.IMPACT),
            (k.F_TARGET, "red_target", k.NUM_HOSTS - 1),
            (k.F_EXPLOIT, "red_exploit", k.NUM_EXPLOITS - 1),
            (k.F_DETECTED, "detected", 1),
            (k.F_PICKED, "esc_pick", 1),
            (k.F_GREEN, "green_target", k.NUM_HOSTS - 1),
        ):
            numbers = np.asarray(getattr(self, name))
            check_range(name, numbers, FREE, high)
            table[:, at] = numbers
        acting, discovering = table[:, k.F_KIND] > k.SLEEP, table[:, k.F_KIND] == k.DISCOVER
        check_range("red_target", table[acting, k.F_TARGET], 0, k.NUM_HOSTS - 1)
        check_range("red_target", table[discovering, k.F_TARGET], 0, len(s.SUBNETS) - 1)
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
    """Set the attackers (N,) of episodes that have just begun: indices in scenario.REDS.

    Raises:
        InvalidStateError: There is no such attacker.
    """
    check_range("red_agent", np.asarray(agents), 0, k.SLEEPER)
    env._i16[:, k.AGENT] = agents


def replay_step(env: Cage2VecEnv, actions: Array, choices: Choices, out: StepBuffers) -> Allowed:
    """Advance every network by one step with the given choices, writing all of `out`.

    Choices are not checked against the model; compare them with the returned ones.

    Args:
        env: Networks that have begun.
        actions: Blue's actions (N,).
        choices: The random choices.
        out: As for `step_into`.

    Raises:
        InvalidStateError: There is no such action, host or exploit.
    """
    env._check(out)
    # A recording may fill slots behind the end of an episode with -1, which all actions sort out
    # but those of the reduced set.
    low = 0 if env.config.actions == "reduced" else -1
    check_range("blue_action", actions, low, env.layout.num_actions - 1)
    if len(actions) != env.num_envs:
        raise InvalidStateError(f"there are {len(actions)} actions for {env.num_envs} networks")
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
