"""CartPole that looks like another environment, so that both train the very same network."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from briskrl.core.errors import ConfigError
from briskrl.core.spec import DiscreteSpec, EnvSpec
from briskrl.core.types import Array, EpisodeStats, StepBuffers
from briskrl.envs.cartpole.config import CartPoleConfig
from briskrl.envs.cartpole.env import CartPoleVecEnv

BYTE_SCALE, BYTE_MIDDLE = 32.0, 128.0
"""How the cart's numbers are shown where observations are bytes."""


class PaddedCartPole:
    """N compiled carts with observations, actions and masks of another environment's shapes.

    Observations are the cart's four numbers and then zeros. Action a of the other environment
    pushes as a % 2 does, and all actions are legal.

    Args:
        spec: What to look like; one discrete action, and observations of four numbers or more.
        num_envs: N.
        threads: Threads for large batches.
    """

    notes: tuple[str, ...] = ()
    codec = None
    async_env = None

    def __init__(self, spec: EnvSpec, num_envs: int, *, threads: int = 1) -> None:
        if not isinstance(spec.action, DiscreteSpec) or spec.action.n < 2 or spec.obs.size < 4:
            raise ConfigError(
                "CartPole can stand in for environments with one discrete action and observations "
                "of four numbers or more only."
            )
        self._carts = CartPoleVecEnv(num_envs, config=CartPoleConfig(), threads=threads)
        self.env_spec = EnvSpec(
            obs=spec.obs,
            action=spec.action,
            max_steps=self._carts.env_spec.max_steps,
            has_mask=spec.has_mask,
            exact_state=True,
        )
        self.num_envs = num_envs
        self._bare = StepBuffers.allocate(self._carts.env_spec, num_envs)
        self._pushes = np.zeros(num_envs, np.int64)
        self._wide = np.zeros((num_envs, *spec.obs.shape), spec.obs.dtype)
        self._numbers = self._wide.reshape(num_envs, -1)[:, :4]

    def start(self, seed: int, out: StepBuffers) -> None:
        """Begin new episodes everywhere, env i with seed + i; writes obs and mask."""
        self._carts.start(seed, self._bare)
        self._show(self._bare.obs, out.obs)
        self._allow(out)

    def step_into(self, actions: Array, out: StepBuffers) -> None:
        """Advance every env by one transition, writing all of `out`."""
        bare = self._bare
        np.bitwise_and(actions, 1, out=self._pushes)
        self._carts.step_into(self._pushes, bare)
        out.reward[...] = bare.reward
        out.terminated[...] = bare.terminated
        out.truncated[...] = bare.truncated
        if bare.terminated.any() or bare.truncated.any():
            self._show(bare.final_obs, out.final_obs)
        self._show(bare.obs, out.obs)
        self._allow(out)

    def drain_stats(self) -> EpisodeStats:
        """Episodes finished since the last call."""
        return self._carts.drain_stats()

    def get_state(self) -> Mapping[str, Array]:
        """Everything that decides the future; copies."""
        return self._carts.get_state()

    def set_state(self, state: Mapping[str, Array]) -> None:
        """Continue from what get_state gave."""
        self._carts.set_state(state)

    def close(self) -> None:
        """Release everything; may be called twice."""
        self._carts.close()

    def _show(self, numbers: Array, out: Array) -> None:
        """Write observations (N, 4) as those of the other environment, whole rows of them."""
        if self._numbers.dtype == np.uint8:
            numbers = np.clip(numbers * BYTE_SCALE + BYTE_MIDDLE, 0, 255)
        self._numbers[...] = numbers
        np.copyto(out, self._wide)

    def _allow(self, out: StepBuffers) -> None:
        for mask in (out.mask, out.final_mask):
            if mask is not None:
                mask.fill(True)
