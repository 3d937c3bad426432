"""The compiled version of Gymnasium's CartPole, and how to read and write the original's state."""

from __future__ import annotations

from typing import Any

import numpy as np
from gymnasium.envs.classic_control.cartpole import CartPoleEnv
from numpy.typing import NDArray

from briskrl.envs.cartpole.kernels.step import ANGLE_LIMIT, X_LIMIT
from briskrl.envs.gym.compiled.kernels import cartpole as kernels
from briskrl.envs.gym.compiled.registry import CompiledVersion


def _settings(env: Any) -> tuple[int, ...]:
    return (int(bool(env._sutton_barto_reward)),)


def _read(env: Any) -> NDArray[np.float64]:
    return np.array(env.state, np.float64)


def _write(env: Any, state: NDArray[np.float64]) -> None:
    env.state = state.copy()
    env.steps_beyond_terminated = None


CARTPOLE = CompiledVersion(
    env_class=CartPoleEnv,
    kernels=kernels.KERNELS,
    # Some of the compared states are slightly beyond the limits where episodes end.
    state_bounds=(1.1 * X_LIMIT, 4.0, 1.1 * ANGLE_LIMIT, 4.0),
    settings=_settings,
    read=_read,
    write=_write,
)
