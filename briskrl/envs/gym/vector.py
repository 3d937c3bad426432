"""Adapt vector environments made by the caller to the interface of `briskrl.envs.base`.

Gymnasium's vector environments reset ended episodes in one of three modes. SAME_STEP is ours. With
DISABLED, the adapter resets the ended envs within the step, through `options["reset_mask"]`; that
also works with NEXT_STEP in Gymnasium's own SyncVectorEnv and AsyncVectorEnv. Other NEXT_STEP
environments go through `next_step_adapter`, and EnvPool through `envpool`.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, cast

import numpy as np
from gymnasium.vector import AsyncVectorEnv, AutoresetMode, SyncVectorEnv, VectorEnv

from briskrl.core.errors import ConfigError, EnvStepError
from briskrl.core.types import Array, Bools, StepBuffers
from briskrl.envs.base import VecEnv
from briskrl.envs.gym.vector_base import VectorBatch
from briskrl.envs.validation import check_buffers

AnyVectorEnv = VectorEnv[Any, Any, Any]


def adapt_vector(env: Any) -> VecEnv:
    """Adapt a Gymnasium vector environment or an EnvPool to our `VecEnv` interface.

    Raises:
        ConfigError: It is neither, or its spaces cannot be used.
    """
    from briskrl.envs.gym.envpool import EnvPoolAdapter, is_envpool
    from briskrl.envs.gym.next_step_adapter import NextStepAdapter

    if is_envpool(env):
        return EnvPoolAdapter(env)
    if not isinstance(env, VectorEnv):
        raise ConfigError(
            "env must be a gymnasium.Env, a class or function that makes one, a "
            "gymnasium.vector.VectorEnv, an EnvPool or a briskrl VecEnv, not a "
            f"{type(env).__module__}.{type(env).__qualname__}."
        )
    if autoreset_mode(env) == AutoresetMode.NEXT_STEP and not resets_by_mask(env):
        return cast(VecEnv, NextStepAdapter(env))
    return VectorAdapter(env)


def autoreset_mode(env: AnyVectorEnv) -> AutoresetMode:
    """The autoreset mode of a vector environment; NEXT_STEP if it does not declare one."""
    return AutoresetMode(env.metadata.get("autoreset_mode", AutoresetMode.NEXT_STEP))


def resets_by_mask(env: AnyVectorEnv) -> bool:
    """Whether ended episodes can be reset immediately although the mode is NEXT_STEP."""
    return isinstance(env.unwrapped, SyncVectorEnv | AsyncVectorEnv)


class GymVectorBatch(VectorBatch):
    """Base of the adapters for Gymnasium's vector environments."""

    def __init__(self, env: AnyVectorEnv) -> None:
        self._env = env
        _, infos = env.reset(seed=0)
        limit = env.spec.max_episode_steps if env.spec is not None else None
        super().__init__(
            env.single_observation_space,
            env.single_action_space,
            env.num_envs,
            max_steps=limit,
            has_mask="action_mask" in infos,
        )
        self._own = StepBuffers.allocate(self.env_spec, env.num_envs)

    def start(self, seed: int, out: StepBuffers) -> None:
        """Begin new episodes in all envs, env i with seed + i; writes obs and mask."""
        check_buffers(out, self._own)
        obs, infos = self._env.reset(seed=self._begin(seed))
        self._write_obs(obs, self._own.obs)
        self._write_mask(infos, self._own.mask)
        self.observe_into(out)

    def observe_into(self, out: StepBuffers) -> None:
        """Write the current obs and mask of the environments."""
        out.obs[...] = self._own.obs
        if out.mask is not None:
            out.mask[...] = self._own.mask

    def set_state(self, state: Mapping[str, Array]) -> None:
        """Begin new episodes, because the state of a vector environment cannot be saved."""
        self.start(int(state["seed"][0]), StepBuffers.allocate(self.env_spec, self.num_envs))

    def close(self) -> None:
        """Close the vector environment; may be called twice."""
        if not getattr(self._env, "closed", False):
            self._env.close()

    def _write_mask(self, infos: dict[str, Any], rows: Bools | None, which: Any = ...) -> None:
        if rows is None:
            return
        legal = infos.get("action_mask")
        if legal is None:
            raise EnvStepError("The vector environment returned infos without action_mask.")
        legal = np.asarray(legal)
        if legal.dtype == object:
            blank = np.ones(rows.shape[1], np.bool_)
            legal = np.stack([blank if row is None else np.asarray(row) for row in legal])
        rows[which] = legal[which]


class VectorAdapter(GymVectorBatch):
    """A vector environment that resets ended episodes in the same step."""

    def __init__(self, env: AnyVectorEnv) -> None:
        super().__init__(env)
        self._same_step = autoreset_mode(env) == AutoresetMode.SAME_STEP
        self._checked: StepBuffers | None = None

    def step_into(self, actions: Array, out: StepBuffers) -> None:
        """Step every env, writing all of `out`.

        Raises:
            EnvStepError: The environment returned invalid values.
        """
        if out is not self._checked:
            check_buffers(out, self._own)
            self._checked = out
        obs, reward, terminated, truncated, infos = self._env.step(self._convert_all(actions))
        ended = self._write_outcome(reward, terminated, truncated, out)
        if not ended.any():
            self._write_obs(obs, self._own.obs)
            self._write_mask(infos, self._own.mask)
        elif self._same_step:
            self._keep_final(infos, ended, out)
            self._write_obs(obs, self._own.obs)
            self._write_mask(infos, self._own.mask)
        else:
            self._write_obs(obs, out.final_obs)
            self._write_mask(infos, self._own.mask)
            self._write_mask(infos, out.final_mask)
            # A copy, because Gymnasium removes the mask from the options.
            fresh, infos = self._env.reset(options={"reset_mask": ended.copy()})
            self._write_obs(fresh, self._own.obs)
            self._write_mask(infos, self._own.mask, ended)
        self.observe_into(out)
        self._count_step(out)

    def _keep_final(self, infos: dict[str, Any], ended: Bools, out: StepBuffers) -> None:
        final = infos.get("final_obs", infos.get("final_observation"))
        if final is None:
            raise EnvStepError(
                "The vector environment declares SAME_STEP, but its infos have no final_obs for "
                "ended episodes."
            )
        for i in np.flatnonzero(ended).tolist():
            self._obs_converter.write(_member(final, i), out.final_obs[i])
        if out.final_mask is not None:
            self._write_mask(infos.get("final_info", {}), out.final_mask, ended)


def _member(final: Any, i: int) -> Any:
    """Row i of final observations, which may be an array, a list, or a dict or tuple of arrays."""
    if isinstance(final, dict):
        return {key: _member(part, i) for key, part in final.items()}
    if isinstance(final, tuple):
        return tuple(_member(part, i) for part in final)
    return final[i]
