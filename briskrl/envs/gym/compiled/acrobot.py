"""The compiled version of Gymnasium's Acrobot, and how to read and write the original's state."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from gymnasium.envs.classic_control.acrobot import AcrobotEnv
from numpy.typing import NDArray

from briskrl.envs.gym.compiled.kernels import acrobot as kernels
from briskrl.envs.gym.compiled.registry import CompiledVersion

CONSTANTS = {
    "dt": kernels.STEP_S,
    "LINK_LENGTH_1": 1.0,
    "LINK_LENGTH_2": 1.0,
    "LINK_MASS_1": 1.0,
    "LINK_MASS_2": 1.0,
    "LINK_COM_POS_1": 0.5,
    "LINK_COM_POS_2": 0.5,
    "LINK_MOI": 1.0,
    "MAX_VEL_1": kernels.MAX_SPIN_1,
    "MAX_VEL_2": kernels.MAX_SPIN_2,
    "AVAIL_TORQUE": [-1.0, 0.0, 1],
    "torque_noise_max": 0.0,
    "book_or_nips": "book",
}
"""Attributes of the original that the equations of the kernel contain."""
SQUARE = 2


def _settings(env: Any) -> tuple[int, ...]:
    """The exponent of squares, and whether the constants are those of the kernel.

    The kernel does not read the second. It makes the comparison with the original run again, and
    fail, once somebody has changed a constant of the class.
    """
    return SQUARE, int(all(getattr(env, name) == value for name, value in CONSTANTS.items()))


def _read(env: Any) -> NDArray[np.float64]:
    return np.array(env.state, np.float64)


def _write(env: Any, state: NDArray[np.float64]) -> None:
    # The original holds a start in float32 and everything after the first step in float64.
    rounded = state.astype(np.float32)
    env.state = rounded if (rounded == state).all() else state.copy()


ACROBOT = CompiledVersion(
    env_class=AcrobotEnv,
    kernels=kernels.KERNELS,
    state_bounds=(math.pi, math.pi, kernels.MAX_SPIN_1, kernels.MAX_SPIN_2),
    settings=_settings,
    read=_read,
    write=_write,
)
