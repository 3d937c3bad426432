"""CartPole for many carts at once (CartPoleVecEnv) and for one (CartPoleEnv), compiled."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
from gymnasium.spaces import Box
from gymnasium.vector import AutoresetMode
from gymnasium.vector.utils import batch_space
from numpy.typing import ArrayLike, NDArray

from briskrl.core.errors import ConfigError
from briskrl.core.spec import ArraySpec, DiscreteSpec, EnvSpec
from briskrl.core.types import Array
from briskrl.envs.cartpole import render
from briskrl.envs.cartpole.config import CartPoleConfig
from briskrl.envs.cartpole.kernels import step as k
from briskrl.envs.native import NativeVecEnv, Phase
from briskrl.envs.single_env import NativeEnv


class CartPoleVecEnv(NativeVecEnv):
    """N carts with a pole each, stepped by one compiled call.

    The physics, rewards and ends are those of Gymnasium's CartPole-v1, computed in float64 and
    shown as float32. Starts are drawn from the same range, from our own random numbers. A pole that
    falls in the last step the limit allows has fallen: `truncated` is False there.

    Args:
        num_envs: N.
        config: All settings at once; without it, the keywords of CartPoleConfig.
        autoreset_mode: What happens to ended episodes.
        copy: Whether `reset` and `step` return copies; else buffers that the next call overwrites.
        object_final_obs: Give infos["final_obs"] as the object array of Gymnasium's own classes.
        threads: Threads for batches of about four thousand carts and more.
        render_mode: "ansi", "rgb_array" or None.
        render_index: Render this cart alone.
        cell_px: Pixels per tenth of a unit of track in rgb_array frames.
        settings: Fields of CartPoleConfig.

    Raises:
        ConfigError: The settings cannot be played.
    """

    _step = staticmethod(k.step)
    _share = staticmethod(k.share)
    _state_name = "cartpole"
    # A step of a thousand carts takes as long as waking a thread.
    _smallest_shared_batch = 4000
    metadata: dict[str, Any] = {  # noqa: RUF012
        "render_modes": ["ansi", "rgb_array"],
        "render_fps": 50,
    }

    def __init__(
        self,
        num_envs: int = 1,
        *,
        config: CartPoleConfig | None = None,
        autoreset_mode: AutoresetMode | str = AutoresetMode.SAME_STEP,
        copy: bool = True,
        object_final_obs: bool = False,
        threads: int = 1,
        render_mode: str | None = None,
        render_index: int | None = None,
        cell_px: int = 8,
        **settings: Any,
    ) -> None:
        self.config = replace(config or CartPoleConfig(), **settings)
        wrong = self.config.check()
        if wrong:
            raise ConfigError(" ".join(wrong))
        super().__init__(
            num_envs,
            spec_of(self.config),
            autoreset_mode=autoreset_mode,
            copy=copy,
            object_final_obs=object_final_obs,
            threads=threads,
        )
        # Gymnasium bounds places and angles by twice what ends an episode, and speeds not at all.
        high = np.array([2 * k.X_LIMIT, np.inf, 2 * k.ANGLE_LIMIT, np.inf], np.float32)
        self.single_observation_space = Box(-high, high, dtype=np.float32)
        self.observation_space = batch_space(self.single_observation_space, num_envs)
        self.draw_as(render_mode)
        self.render_index = render_index
        self.cell_px = cell_px
        self._rules = np.array([self.config.max_steps], np.int64)
        self._words = np.zeros(num_envs * k.ROW, np.uint64)
        self._games = self._words.reshape(num_envs, k.ROW)
        self._states = self._games.view(np.float64)[:, k.X : k.X + 4]
        self._steps = self._games.view(np.int32)[:, k.STEPS]

    @property
    def _random_states(self) -> NDArray[np.uint64]:
        return self._games[:, k.RNG]

    @property
    def _ended(self) -> NDArray[np.int16]:
        return self._games.view(np.int16)[:, k.ENDED]

    def peek(self) -> dict[str, Array]:
        """The carts as plain numbers: state (N, 4) float64, steps and random_state (N,)."""
        return {
            "state": self._states.copy(),
            "steps": self._steps.astype(np.int64),
            "random_state": self._random_states.copy(),
        }

    def set_states(self, states: ArrayLike, *, steps: ArrayLike = 0) -> None:
        """Put all carts into these states (N, 4), with so many steps (N,) behind them.

        Follow it with `observe_into` to see them.
        """
        self._states[:] = states
        self._steps[:] = steps
        self._ended[:] = 0
        self._started = True
        self._run(self._actions, self._own, Phase.LOOK.value)

    def _frame(self, env: int) -> str | NDArray[np.uint8]:
        x, _, angle, _ = self._states[env].tolist()
        if self.render_mode == "rgb_array":
            return render.rgb(x, angle, self.cell_px)
        return render.ansi(x, angle, int(self._steps[env]))


class CartPoleEnv(NativeEnv):
    """One cart as a plain Gymnasium environment; everything it returns is a copy.

    Takes the keywords of CartPoleVecEnv that make sense for a single cart.
    """

    metadata: dict[str, Any] = CartPoleVecEnv.metadata

    def __init__(
        self, *, render_mode: str | None = None, cell_px: int = 8, **settings: Any
    ) -> None:
        games = CartPoleVecEnv(
            1,
            autoreset_mode=AutoresetMode.DISABLED,
            render_mode=render_mode,
            cell_px=cell_px,
            **settings,
        )
        super().__init__(games)


def spec_of(config: CartPoleConfig) -> EnvSpec:
    """What one cart of these settings looks like from outside."""
    bound = float(np.finfo(np.float32).max)
    return EnvSpec(
        obs=ArraySpec.of((4,), "float32", -bound, bound),
        action=DiscreteSpec(2),
        max_steps=config.max_steps or None,
        has_mask=False,
        exact_state=True,
    )


def build(
    num_envs: int, config: CartPoleConfig, *, threads: int, hold_ended: bool
) -> CartPoleVecEnv:
    """The factory of the registry."""
    mode = AutoresetMode.DISABLED if hold_ended else AutoresetMode.SAME_STEP
    return CartPoleVecEnv(num_envs, config=config, threads=threads, autoreset_mode=mode)
