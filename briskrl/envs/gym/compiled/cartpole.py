"""What the compiled CartPole stands in for, and how its numbers lie in an instance of that."""

from __future__ import annotations

from typing import Any

import numpy as np
from gymnasium.envs.classic_control.cartpole import CartPoleEnv
from numpy.typing import NDArray

from briskrl.envs.cartpole.kernels.step import ANGLE_LIMIT, X_LIMIT
from briskrl.envs.gym.compiled.kernels import cartpole as kernels
from briskrl.envs.gym.compiled.registry import StandIn


def _settings(env: Any) -> tuple[int, ...]:
    return (int(bool(env._sutton_barto_reward)),)


def _read(env: Any) -> NDArray[np.float64]:
    return np.array(env.state, np.float64)


def _write(env: Any, state: NDArray[np.float64]) -> None:
    env.state = state.copy()
    env.steps_beyond_terminated = None


CARTPOLE = StandIn(
    stands_for=CartPoleEnv,
    step=kernels.step,
    share=kernels.share,
    # Some of the states that it is tried in are a little beyond where episodes end.
    reach=(1.1 * X_LIMIT, 4.0, 1.1 * ANGLE_LIMIT, 4.0),
    settings=_settings,
    read=_read,
    write=_write,
)
