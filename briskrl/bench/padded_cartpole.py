"""CartPole padded to the shapes of another environment, so that both train the same network."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from briskrl.core.errors import ConfigError
from briskrl.core.spec import DiscreteSpec, EnvSpec
from briskrl.core.types import Array, EpisodeStats, StepBuffers
from briskrl.envs.cartpole.config import CartPoleConfig
from briskrl.envs.cartpole.env import CartPoleVecEnv

BYTE_SCALE, BYTE_MIDDLE = 32.0, 128.0
"""Scale and offset of the state where observations are bytes."""


class PaddedCartPole:
    """N compiled CartPoles with observations, actions and masks in another environment's shapes.

    Observations are CartPole's four numbers followed by zeros. Action a acts as a % 2, and all
    actions are legal.

    Args:
        spec: The other environment: one discrete action, at least four numbers per observation.
        num_envs: N.
        threads: Threads for large batches.
    """

    notes: tuple[str, ...] = ()
    codec = None
    async_env = None

    def __init__(self, spec: EnvSpec, num_envs: int, *, threads: int = 1) -> None:
        if not isinstance(spec.action, DiscreteSpec) or spec.action.n < 2 or spec.obs.size < 4:
            raise ConfigError(
                "CartPole can only replace environments with one discrete action and at least four "
                "numbers per observation."
            )
        self._inner = CartPoleVecEnv(num_envs, config=CartPoleConfig(), threads=threads)
        self.env_spec = EnvSpec(
            obs=spec.obs,
            action=spec.action,
            max_steps=self._inner.env_spec.max_steps,
            has_mask=spec.has_mask,
            exact_state=True,
        )
        self.num_envs = num_envs
        self._inner_out = StepBuffers.allocate(self._inner.env_spec, num_envs)
        self._actions = np.zeros(num_envs, np.int64)
        self._padded = np.zeros((num_envs, *spec.obs.shape), spec.obs.dtype)
        self._filled = self._padded.reshape(num_envs, -1)[:, :4]

    def start(self, seed: int, out: StepBuffers) -> None:
        """Start new episodes everywhere, env i with seed + i; writes obs and mask."""
        self._inner.start(seed, self._inner_out)
        self._pad(self._inner_out.obs, out.obs)
        self._allow_all(out)

    def step_into(self, actions: Array, out: StepBuffers) -> None:
        """Advance every env by one transition, writing all of `out`."""
        inner = self._inner_out
        np.bitwise_and(actions, 1, out=self._actions)
        self._inner.step_into(self._actions, inner)
        out.reward[...] = inner.reward
        out.terminated[...] = inner.terminated
        out.truncated[...] = inner.truncated
        if inner.terminated.any() or inner.truncated.any():
            self._pad(inner.final_obs, out.final_obs)
        self._pad(inner.obs, out.obs)
        self._allow_all(out)

    def drain_stats(self) -> EpisodeStats:
        """Episodes finished since the last call."""
        return self._inner.drain_stats()

    def get_state(self) -> Mapping[str, Array]:
        """The complete state, as copies."""
        return self._inner.get_state()

    def set_state(self, state: Mapping[str, Array]) -> None:
        """Continue from a state of `get_state`."""
        self._inner.set_state(state)

    def close(self) -> None:
        """Release everything; may be called twice."""
        self._inner.close()

    def _pad(self, numbers: Array, out: Array) -> None:
        """Write observations (N, 4) in the shape of the other environment."""
        if self._filled.dtype == np.uint8:
            numbers = np.clip(numbers * BYTE_SCALE + BYTE_MIDDLE, 0, 255)
        self._filled[...] = numbers
        np.copyto(out, self._padded)

    def _allow_all(self, out: StepBuffers) -> None:
        for mask in (out.mask, out.final_mask):
            if mask is not None:
                mask.fill(True)
