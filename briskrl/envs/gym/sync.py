"""The sync backend: Gymnasium environments stepped one after another in this process."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import gymnasium

from briskrl.core.errors import BriskError, ConfigError, EnvStepError
from briskrl.core.spec import EnvSpec
from briskrl.core.types import Array, EpisodeStats, StepBuffers
from briskrl.envs.gym.env_factory import EnvFactory
from briskrl.envs.gym.env_group import EnvGroup
from briskrl.envs.gym.episode_records import EpisodeRecords, EpisodeRows, copy_step
from briskrl.envs.gym.respawn import ADVICE, Respawner
from briskrl.envs.gym.snapshot import load_saved, pack_states
from briskrl.envs.validation import check_buffers


class GymSyncEnv:
    """N Gymnasium environments in this process.

    Args:
        factory: Makes each environment.
        num_envs: N.
        spec: The result of `factory.spec()`.
        hold_ended: Do not begin a new episode after one has ended, until the next `start`.
        render_mode: Passed to Gymnasium.
    """

    codec = None
    async_env = None

    def __init__(
        self,
        factory: EnvFactory,
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
        """Messages for the user about how the environments are run."""
        self._own = StepBuffers.allocate(spec, num_envs)
        self._episode = EpisodeRows.allocate(num_envs)
        self._records = EpisodeRecords()
        self._checked: StepBuffers | None = None
        self._started = False
        self._group = EnvGroup(
            factory,
            0,
            self._own,
            self._episode,
            exact=spec.exact_state,
            hold_ended=hold_ended,
            render_mode=render_mode,
        )
        respawns = factory.config.on_env_error == "respawn"
        self._respawner = Respawner(self._group, self.notes) if respawns else None

    @property
    def respawns(self) -> int:
        """Failures after which new episodes were started."""
        return 0 if self._respawner is None else self._respawner.respawns

    def start(self, seed: int, out: StepBuffers) -> None:
        """Begin new episodes in all envs, env i with seed + i; writes obs and mask."""
        check_buffers(out, self._own)
        self._group.start(seed)
        if self._respawner is not None:
            self._respawner.seed = seed
        self._records.clear()
        self._started = True
        self.observe_into(out)

    def step_into(self, actions: Array, out: StepBuffers) -> None:
        """Step every env, writing all of `out`.

        Raises:
            EnvStepError: An environment raised, or returned invalid values; with `on_env_error`
                "respawn" only if that happens too often.
        """
        if out is not self._checked:
            if not self._started:
                raise BriskError("Call start before the first step.")
            check_buffers(out, self._own)
            self._checked = out
        if self._respawner is None:
            ended = self._step_or_stop(actions)
        else:
            ended = self._respawner.step_all(actions)
        if ended:
            self._records.add(self._own, self._episode)
        copy_step(self._own, out, ended=ended)

    def _step_or_stop(self, actions: Array) -> bool:
        try:
            return self._group.step_all(actions)
        except EnvStepError as error:
            error.args = (f"{error}\n\n{ADVICE}",)
            raise

    def observe_into(self, out: StepBuffers) -> None:
        """Write the current obs and mask of the environments."""
        check_buffers(out, self._own)
        out.obs[...] = self._own.obs
        if out.mask is not None:
            out.mask[...] = self._own.mask

    def drain_stats(self) -> EpisodeStats:
        """Episodes finished since the last call, by step and then by env."""
        return self._records.drain()

    def get_state(self) -> Mapping[str, Array]:
        """A copy of the state, observation and mask of every environment."""
        state = {"envs": pack_states(self._group.get_state()), "obs": self._own.obs.copy()}
        if self._own.mask is not None:
            state["mask"] = self._own.mask.copy()
        return state

    def set_state(self, state: Mapping[str, Array]) -> None:
        """Restore a state that `get_state` returned.

        Without an exact state (`env_spec.exact_state`), new episodes begin; `observe_into` writes
        their first observations.

        Raises:
            InvalidStateError: It is not a state of these environments.
        """
        texts = load_saved(state, self._own)
        self._group.set_state(texts)
        self._records.clear()
        self._started = True

    @property
    def metadata(self) -> dict[str, Any]:
        """The environments' metadata, for example their render modes."""
        return dict(self._group.envs[0].metadata)

    def render(self) -> list[Any]:
        """The rendered frame of each environment.

        Raises:
            ConfigError: Rendering failed, for example because a package is missing.
        """
        try:
            return [env.render() for env in self._group.envs]
        except (gymnasium.error.Error, ImportError) as error:
            raise ConfigError(f"{self._group.factory.name} cannot be rendered: {error}.") from error

    def close(self) -> None:
        """Close every environment; may be called twice."""
        self._group.close()
