"""CartPole for many carts at once (CartPoleVecEnv) and for one (CartPoleEnv), compiled."""

from __future__ import annotations

from typing import Any

import gymnasium
import numpy as np
from numpy.typing import ArrayLike, NDArray

from briskrl.core.spec import ArraySpec, DiscreteSpec, EnvSpec
from briskrl.core.types import Array
from briskrl.envs.cartpole import render
from briskrl.envs.cartpole.config import CartPoleConfig
from briskrl.envs.cartpole.kernels import step as k
from briskrl.envs.cartpole.state_check import check_carts
from briskrl.envs.native import NativeEnv, NativeVecEnv
from briskrl.envs.native_batch import BatchMemory


class CartPoleVecEnv(NativeVecEnv):
    """N carts with a pole each, stepped by one compiled call.

    The physics, rewards and ends are those of Gymnasium's CartPole-v1. They are computed in
    float64; initial states come from our own random numbers.

    Observation: position and velocity of the cart, angle and angular velocity of the pole, float32.

    Action: push left (0) or right (1).

    Reward: 1 for every step.

    Termination: the cart leaves the track or the pole falls, also in the last step that `max_steps`
    allows. Truncation: `max_steps` steps.

    Args: see NativeVecEnv and CartPoleConfig. `cell_px` is pixels per tenth of a unit of track.
    """

    config_class = CartPoleConfig
    config: CartPoleConfig
    kernels = k.KERNELS
    state_name = "cartpole"
    # A step of a thousand carts takes as long as waking a thread.
    smallest_parallel_batch = 4000
    default_cell_px = 8
    metadata: dict[str, Any] = {  # noqa: RUF012
        "render_modes": ["ansi", "rgb_array"],
        "render_fps": 50,
    }

    def _prepare(self) -> EnvSpec:
        return spec_of(self.config)

    def _lay_out(self, chunks: int) -> BatchMemory:
        params = np.array([self.config.max_steps], np.int64)
        return BatchMemory(k.ROW, scratch_words=0, params=params)

    def _check_rows(self, rows: NDArray[np.uint64]) -> None:
        check_carts(rows)

    def _observation_space(self, env_spec: EnvSpec) -> gymnasium.Space[Any]:
        # Gymnasium's bounds: twice the limits of position and angle, and none for velocities.
        high = np.array([2 * k.X_LIMIT, np.inf, 2 * k.ANGLE_LIMIT, np.inf], np.float32)
        return gymnasium.spaces.Box(-high, high, dtype=np.float32)

    @property
    def _states(self) -> NDArray[np.float64]:
        return self._f64[:, k.X : k.X + 4]

    def peek(self) -> dict[str, Array]:
        """The carts as plain numbers: state (N, 4) float64, steps and random_state (N,)."""
        return {
            "state": self._states.copy(),
            "steps": self._i32[:, k.STEPS].astype(np.int64),
            "random_state": self._random_states.copy(),
        }

    def set_states(self, states: ArrayLike, *, steps: ArrayLike = 0) -> None:
        """Put all carts into these states (N, 4), after this number of steps (N,).

        Call `observe_into` to get their observations.
        """
        self._states[:] = states
        self._i32[:, k.STEPS][:] = steps
        self._ended[:] = 0
        self._started = True
        self._rebuild()

    def _frame(self, env: int) -> str | NDArray[np.uint8]:
        x, _, angle, _ = self._states[env].tolist()
        if self.render_mode == "rgb_array":
            return render.rgb(x, angle, self.cell_px)
        return render.ansi(x, angle, int(self._i32[env, k.STEPS]))


class CartPoleEnv(NativeEnv):
    """One cart; see CartPoleVecEnv."""

    vec_env_class = CartPoleVecEnv
    metadata: dict[str, Any] = CartPoleVecEnv.metadata


build = CartPoleVecEnv.build


def spec_of(config: CartPoleConfig) -> EnvSpec:
    """The spec of one cart with these settings."""
    bound = float(np.finfo(np.float32).max)
    return EnvSpec(
        obs=ArraySpec.of((4,), "float32", -bound, bound),
        action=DiscreteSpec(2),
        max_steps=config.max_steps or None,
        has_mask=False,
        exact_state=True,
    )
