"""EnvPool-style pools: `step(action, env_id)`, `reset(env_id)`, results with `info["env_id"]`.

Written from EnvPool's documentation and tested with an object that behaves as documented there, not
with EnvPool itself. A pool resets an ended episode in the next step; calling `reset(env_id)` for
the ended ones at once makes that SAME_STEP.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from briskrl.core.errors import ConfigError, EnvStepError
from briskrl.core.types import Array, StepBuffers
from briskrl.envs.gym.vector_base import VectorBatch, write_batch
from briskrl.envs.validation import check_buffers


def is_envpool(env: Any) -> bool:
    """Whether an object steps the way EnvPool does."""
    return all(hasattr(env, name) for name in ("send", "recv", "async_reset", "config"))


class EnvPoolAdapter(VectorBatch):
    """A pool in its synchronous mode; it keeps the seeds it was made with."""

    def __init__(self, pool: Any) -> None:
        settings = dict(pool.config)
        num_envs = int(settings["num_envs"])
        batch = int(settings.get("batch_size") or num_envs)
        if batch != num_envs:
            raise ConfigError(
                f"The pool returns {batch} of its {num_envs} envs at a time. Make it with "
                "batch_size = num_envs; otherwise the order of envs would change from run to run."
            )
        limit = settings.get("max_episode_steps")
        super().__init__(
            pool.observation_space,
            pool.action_space,
            num_envs,
            max_steps=int(limit) if limit else None,
            has_mask=False,
        )
        self._pool = pool
        self._space = pool.observation_space
        self._ids = np.arange(num_envs, dtype=np.int32)
        self._own = StepBuffers.allocate(self.env_spec, num_envs)

    def start(self, seed: int, out: StepBuffers) -> None:
        """Begin new episodes in all envs; a pool takes no seed after it is made."""
        check_buffers(out, self._own)
        self._begin(seed)
        obs, info = self._pool.reset()
        self._write_obs(self._sorted(obs, info, self._ids), self._own.obs)
        self.observe_into(out)

    def step_into(self, actions: Array, out: StepBuffers) -> None:
        """Step every env, writing all of `out`.

        Raises:
            EnvStepError: The pool returned invalid values.
        """
        check_buffers(out, self._own)
        result = self._pool.step(self._convert_all(actions), self._ids)
        if len(result) != 5:
            raise EnvStepError('The pool must be made with env_type "gymnasium".')
        obs, reward, terminated, truncated, info = result
        reward, terminated, truncated = (
            self._sorted(part, info, self._ids) for part in (reward, terminated, truncated)
        )
        ended = self._write_outcome(reward, terminated, truncated, out)
        self._write_obs(self._sorted(obs, info, self._ids), self._own.obs)
        if ended.any():
            out.final_obs[ended] = self._own.obs[ended]
            self._restart(self._ids[ended])
        self.observe_into(out)
        self._count_step(out)

    def observe_into(self, out: StepBuffers) -> None:
        """Write the current obs of the environments."""
        out.obs[...] = self._own.obs

    def set_state(self, state: Mapping[str, Array]) -> None:
        """Begin new episodes, because the state of a pool cannot be saved."""
        self.start(int(state["seed"][0]), StepBuffers.allocate(self.env_spec, self.num_envs))

    def close(self) -> None:
        """Close the pool; may be called twice."""
        self._pool.close()

    def _restart(self, ids: Array) -> None:
        obs, info = self._pool.reset(ids)
        rows = np.zeros((len(ids), *self._own.obs.shape[1:]), self._own.obs.dtype)
        write = write_batch(self._space, self._obs_converter, len(ids))
        try:
            write(self._sorted(obs, info, ids), rows)
        except ValueError as error:
            raise EnvStepError(f"The pool returned {error}.") from error
        self._own.obs[ids] = rows

    def _sorted(self, values: Any, info: Mapping[str, Any], ids: Array) -> Any:
        """Results in the order of `ids`; the pool returns them in the order they finished."""
        returned = np.asarray(info["env_id"])
        if np.array_equal(returned, ids):
            return values
        if set(returned.tolist()) != set(ids.tolist()):
            raise EnvStepError(f"The pool returned the envs {returned}, not {ids}.")
        order = np.argsort(returned, kind="stable")[np.argsort(np.argsort(ids, kind="stable"))]
        if isinstance(values, dict):
            return {key: np.asarray(part)[order] for key, part in values.items()}
        return np.asarray(values)[order]
