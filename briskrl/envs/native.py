"""Compiled environments as Gymnasium environments: NativeVecEnv for a batch, NativeEnv for one.

A family subclasses NativeVecEnv and declares its config, kernels and memory layout. Seeding,
automatic resets, episode records, infos and threads are the same for all families.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Mapping
from dataclasses import asdict, replace
from typing import Any, ClassVar, Self

import gymnasium
import msgspec
import numpy as np
from gymnasium.vector import AutoresetMode, VectorEnv
from gymnasium.vector.utils import batch_space
from numpy.typing import ArrayLike, NDArray

from briskrl.core.errors import ConfigError
from briskrl.core.spec import DiscreteSpec, EnvSpec, SubsetSpec
from briskrl.core.types import Array, Bools
from briskrl.envs.kernels.episode_log import REC_CAUSE, REC_ENV, REC_RETURN, REC_SCORE, REC_STEPS
from briskrl.envs.kernels.step_loop import StepMode
from briskrl.envs.native_batch import NativeBatch
from briskrl.envs.seeding import Seeds
from briskrl.envs.validation import checked_actions, reset_mask

Infos = dict[str, Any]


class NativeVecEnv(NativeBatch, VectorEnv[Array, Array, Array]):
    """N compiled environments, for trainers and for Gymnasium.

    `metadata["autoreset_mode"]` says what happens to ended episodes; `step_into` and `step` both
    follow it. Trainers use SAME_STEP, the default, which wastes no step.

    Args:
        num_envs: N.
        config: The settings; without it, the defaults of the family's config class.
        autoreset_mode: What happens to ended episodes.
        copy: Whether `reset` and `step` return copies; else buffers that the next call overwrites.
        object_final_obs: Return infos["final_obs"] as an object array, as Gymnasium's own classes
            do.
        threads: Threads, used for batches of at least `smallest_parallel_batch` envs.
        render_mode: One of `metadata["render_modes"]`, or None.
        render_index: Render this env alone.
        cell_px: Pixels per cell of rgb_array frames.
        settings: Fields of the config class, by keyword.

    Raises:
        ConfigError: The settings are not valid.
    """

    config_class: ClassVar[type[Any]]
    default_cell_px: ClassVar[int] = 16
    config: Any

    def __init__(
        self,
        num_envs: int = 1,
        *,
        config: Any = None,
        autoreset_mode: AutoresetMode | str = AutoresetMode.SAME_STEP,
        copy: bool = True,
        object_final_obs: bool = False,
        threads: int = 1,
        render_mode: str | None = None,
        render_index: int | None = None,
        cell_px: int | None = None,
        **settings: Any,
    ) -> None:
        self.config = self._resolve_config(config, settings)
        env_spec = self._prepare()
        mode = AutoresetMode(autoreset_mode)
        super().__init__(num_envs, env_spec, StepMode[mode.name], threads)
        self.metadata = {**self.metadata, "autoreset_mode": mode}
        self._copy = copy
        self._object_final_obs = object_final_obs
        self._num_actions, self.single_action_space = _action_space(env_spec)
        self.single_observation_space = self._observation_space(env_spec)
        self.observation_space = batch_space(self.single_observation_space, num_envs)
        self.action_space = batch_space(self.single_action_space, num_envs)
        self.set_render_mode(render_mode)
        self.render_index = render_index
        self.cell_px = self.default_cell_px if cell_px is None else cell_px

    @classmethod
    def build(cls, num_envs: int, config: Any, *, threads: int, hold_ended: bool) -> Self:
        """The factory of the registry."""
        mode = AutoresetMode.DISABLED if hold_ended else AutoresetMode.SAME_STEP
        return cls(num_envs, config=config, threads=threads, autoreset_mode=mode)

    def _resolve_config(self, config: Any, settings: Mapping[str, Any]) -> Any:
        """The settings as one valid config."""
        return resolve_config(self.config_class, config, settings)

    @abstractmethod
    def _prepare(self) -> EnvSpec:
        """Derive from `config` what `_lay_out` needs; returns the spec of one env."""

    def _observation_space(self, env_spec: EnvSpec) -> gymnasium.Space[Any]:
        box = env_spec.obs
        return gymnasium.spaces.Box(box.low, box.high, box.shape, box.dtype.type)

    @abstractmethod
    def _frame(self, env: int) -> Any:
        """One env drawn as `render_mode` says, which is not None."""

    def action_masks(self) -> Bools:
        """Legal actions, (N, A); in games, those that do not end the game at once."""
        mask = np.empty((self.num_envs, self._num_actions), np.bool_)
        self._write_mask(mask, final=False)
        return mask

    def reset(self, *, seed: Seeds = None, options: Infos | None = None) -> tuple[Array, Infos]:
        """Begin new episodes, everywhere or where options["reset_mask"] (N,) is True.

        Args:
            seed: n seeds env i with n + i; a list gives one seed (or None) each; without a seed the
                random streams go on.
            options: May hold "reset_mask", a bool array with at least one True.
        """
        which = reset_mask(options, self.num_envs, started=self._started)
        self._seed(seed, which)
        self._ended[which] = 1
        self._begin(self._own)
        return self._copy_out(self._own.obs), {}

    def step(self, actions: ArrayLike) -> tuple[Array, Array, Array, Array, Infos]:
        """Advance every env by one step; infos hold records only when an episode ended."""
        if not self._started:
            raise gymnasium.error.ResetNeeded("Call reset before step.")
        chosen = checked_actions(actions, self._actions.shape, self._num_actions)
        reset_only = self._reset_only()
        own = self._own
        self.step_into(chosen, own)
        ended = own.terminated | own.truncated
        infos = self._infos(ended) if ended.any() else {}
        if reset_only is not None:
            infos["reset_only"], infos["_reset_only"] = reset_only, reset_only.copy()
        return (
            self._copy_out(own.obs),
            self._copy_out(own.reward),
            self._copy_out(own.terminated),
            self._copy_out(own.truncated),
            infos,
        )

    def render(self) -> tuple[Any, ...] | None:
        """One frame per env, or of `render_index` alone; None without a render_mode."""
        if self.render_mode is None:
            return None
        envs = range(self.num_envs) if self.render_index is None else (self.render_index,)
        return tuple(self._frame(env) for env in envs)

    def set_render_mode(self, render_mode: str | None) -> None:
        """Set how `render` draws.

        Raises:
            ValueError: The family cannot be drawn that way.
        """
        modes = self.metadata["render_modes"]
        if render_mode not in (None, *modes):
            known = ", ".join(modes)
            raise ValueError(f"render_mode must be {known} or None, not {render_mode!r}.")
        self.render_mode = render_mode

    def _episode_infos(self, rows: NDArray[np.float64]) -> dict[str, Array]:
        """What infos show of episode records (M, LOG_COLUMNS): arrays (M,) by key."""
        return {
            "score": rows[:, REC_SCORE].astype(np.int32),
            "episode_steps": rows[:, REC_STEPS].astype(np.int32),
            "return": rows[:, REC_RETURN].astype(np.float32),
            "cause": rows[:, REC_CAUSE].astype(np.uint8),
        }

    def _infos(self, ended: Bools) -> Infos:
        rows = self._log.latest()
        envs = rows[:, REC_ENV].astype(np.int64)
        records: Infos = {}
        for key, values in self._episode_infos(rows).items():
            records[key] = np.zeros(self.num_envs, values.dtype)
            records[key][envs] = values
            records["_" + key] = ended.copy()
        if self._mode != StepMode.SAME_STEP:
            return records
        nested = {key: array.copy() for key, array in records.items()}
        return {
            **records,
            "final_obs": self._final_obs(ended),
            "_final_obs": ended.copy(),
            "final_info": nested,
            "_final_info": ended.copy(),
        }

    def _final_obs(self, ended: Bools) -> Array:
        if not self._object_final_obs:
            return self._copy_out(self._own.final_obs)
        rows = np.full(self.num_envs, None, dtype=object)
        for env in np.flatnonzero(ended):
            rows[env] = self._own.final_obs[env].copy()
        return rows

    def _copy_out(self, array: Array) -> Array:
        return array.copy() if self._copy else array

    def _reset_only(self) -> Bools | None:
        """Envs whose next step only resets them, (N,); None if there are none."""
        if self._mode == StepMode.SAME_STEP:
            return None
        ended: Bools = self._ended != 0
        if not ended.any():
            return None
        if self._mode == StepMode.DISABLED:
            which = np.flatnonzero(ended)
            raise gymnasium.error.ResetNeeded(
                f"{len(which)} episodes have ended (the first in env {which[0]}); "
                'reset them with options={"reset_mask": mask} before the next step.'
            )
        return ended


class NativeEnv(gymnasium.Env[Array, np.int64]):
    """One environment of a native family; everything it returns is a copy.

    Takes the keywords of the family's NativeVecEnv that make sense for a single environment.
    """

    vec_env_class: ClassVar[type[NativeVecEnv]]

    def __init__(
        self, *, render_mode: str | None = None, cell_px: int | None = None, **settings: Any
    ) -> None:
        self._vec_env = self.vec_env_class(
            1,
            autoreset_mode=AutoresetMode.DISABLED,
            render_mode=render_mode,
            cell_px=cell_px,
            **settings,
        )
        self.render_mode = render_mode
        self.observation_space = self._vec_env.single_observation_space
        self.action_space = self._vec_env.single_action_space

    def reset(
        self, *, seed: int | None = None, options: Infos | None = None
    ) -> tuple[Array, Infos]:
        """Begin a new episode."""
        super().reset(seed=seed)
        obs, _ = self._vec_env.reset(seed=seed)
        return obs[0], {}

    def step(self, action: np.int64 | int) -> tuple[Array, float, bool, bool, Infos]:
        """Take one step; the info of an ending step holds the episode's record."""
        obs, reward, terminated, truncated, infos = self._vec_env.step(np.array([action]))
        record = {key: array[0] for key, array in infos.items() if not key.startswith("_")}
        return obs[0], float(reward[0]), bool(terminated[0]), bool(truncated[0]), record

    def render(self) -> Any:
        """The environment as text or as an image."""
        frames = self._vec_env.render()
        return None if frames is None else frames[0]

    def action_masks(self) -> Bools:
        """Legal actions, (A,)."""
        mask: Bools = self._vec_env.action_masks()[0]
        return mask

    def close(self) -> None:
        """Release everything; may be called twice."""
        self._vec_env.close()


def resolve_config(config_class: type[Any], config: Any, settings: Mapping[str, Any]) -> Any:
    """A valid config: `config` or the defaults, with some settings replaced.

    Raises:
        ConfigError: A setting has the wrong type, or the settings do not fit together.
    """
    config = replace(config or config_class(), **settings)
    try:
        config = msgspec.convert(asdict(config), config_class)
    except msgspec.ValidationError as error:
        raise ConfigError(f"These settings are not valid: {error}.") from error
    wrong = config.check()
    if wrong:
        raise ConfigError(" ".join(wrong))
    return config


def _action_space(env_spec: EnvSpec) -> tuple[int, gymnasium.Space[Any]]:
    """The number of actions, and Gymnasium's space of one env's action."""
    action = env_spec.action
    assert isinstance(action, DiscreteSpec | SubsetSpec)
    if isinstance(action, DiscreteSpec):
        return action.n, gymnasium.spaces.Discrete(action.n)
    return action.n, gymnasium.spaces.MultiDiscrete([action.n] * action.k)
