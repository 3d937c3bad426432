"""Gymnasium environments stepped one after another in this process."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import gymnasium
import numpy as np

from briskrl.core.errors import BriskError, ConfigError
from briskrl.core.spec import EnvSpec
from briskrl.core.types import Array, EpisodeStats, StepBuffers
from briskrl.envs.gym.env_factory import EnvRecipe
from briskrl.envs.gym.env_group import EpisodeRows, Host
from briskrl.envs.gym.episode_records import Ledger, check_buffers, hand_over, pack, unpack


class GymSyncEnv:
    """N environments of one recipe in this process.

    Args:
        recipe: How each of them is made.
        num_envs: N.
        spec: What `recipe.spec()` gave.
        hold_ended: An ended episode stays as it ended until the next `start`.
        render_mode: Passed to Gymnasium.
    """

    def __init__(
        self,
        recipe: EnvRecipe,
        num_envs: int,
        spec: EnvSpec,
        *,
        hold_ended: bool = False,
        render_mode: str | None = None,
    ) -> None:
        self.env_spec = spec
        self.num_envs = num_envs
        self.render_mode = render_mode
        self.notes: list[str] = []
        """Sentences about how the environments are run, to be shown once."""
        self._own = StepBuffers.allocate(spec, num_envs)
        self._episode = EpisodeRows.allocate(num_envs)
        self._ledger = Ledger()
        self._checked: StepBuffers | None = None
        self._started = False
        self._host = Host(
            recipe,
            0,
            self._own,
            self._episode,
            exact=spec.exact_state,
            hold_ended=hold_ended,
            render_mode=render_mode,
        )

    def start(self, seed: int, out: StepBuffers) -> None:
        """Begin new episodes everywhere, env i with seed + i; writes obs and mask."""
        check_buffers(out, self._own)
        self._host.start(seed)
        self._ledger.clear()
        self._started = True
        self.observe_into(out)

    def step_into(self, actions: Array, out: StepBuffers) -> None:
        """Advance every env by one transition, writing all of `out`.

        Raises:
            EnvStepError: An environment raised, or returned what cannot be learnt from.
        """
        if out is not self._checked:
            if not self._started:
                raise BriskError("Call start before the first step.")
            check_buffers(out, self._own)
            self._checked = out
        ended = self._host.step_all(actions)
        if ended:
            self._ledger.note(self._own, self._episode)
        hand_over(self._own, out, ended=ended)

    def observe_into(self, out: StepBuffers) -> None:
        """Write obs and mask of the environments as they stand."""
        check_buffers(out, self._own)
        out.obs[...] = self._own.obs
        if out.mask is not None:
            out.mask[...] = self._own.mask

    def drain_stats(self) -> EpisodeStats:
        """Episodes finished since the last call, by step and then by env."""
        return self._ledger.drain()

    def get_state(self) -> Mapping[str, Array]:
        """The state of every environment, and what it shows; copies."""
        state = {"envs": pack(self._host.get_state()), "obs": self._own.obs.copy()}
        if self._own.mask is not None:
            state["mask"] = self._own.mask.copy()
        return state

    def set_state(self, state: Mapping[str, Array]) -> None:
        """Continue from what get_state gave.

        Without an exact state (`env_spec.exact_state`) new episodes begin; `observe_into` tells
        their first observations.
        """
        np.copyto(self._own.obs, state["obs"])
        if self._own.mask is not None:
            np.copyto(self._own.mask, state["mask"])
        self._host.set_state(unpack(state["envs"]))
        self._ledger.clear()
        self._started = True

    @property
    def metadata(self) -> dict[str, Any]:
        """What the environments say about themselves, for example their render modes."""
        return dict(self._host.envs[0].metadata)

    def render(self) -> list[Any]:
        """What each environment draws in its render mode.

        Raises:
            ConfigError: It cannot, for example because a package is missing.
        """
        try:
            return [env.render() for env in self._host.envs]
        except (gymnasium.error.Error, ImportError) as error:
            raise ConfigError(f"gym:{self._host.recipe.id} cannot be drawn: {error}.") from error

    def close(self) -> None:
        """Close every environment; may be called twice."""
        self._host.close()
