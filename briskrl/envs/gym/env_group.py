"""A group of Gymnasium environments, stepped one at a time into rows of shared buffers.

The sync backend has one group, and so has every worker process. A group applies the time limit,
starts the next episode in the step that ends one, and raises on values that cannot be trained on.
It is written for speed: a step of CartPole costs little more than the environment's own step.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from typing import Any

import numpy as np

from briskrl.core.errors import EnvStepError
from briskrl.core.state_checks import invalid_state
from briskrl.core.types import Array, Bools, StepBuffers
from briskrl.envs.gym import snapshot
from briskrl.envs.gym.env_factory import EnvFactory, GymEnv
from briskrl.envs.gym.episode_records import EpisodeRows
from briskrl.envs.gym.returned import (
    NUMBERS,
    check_info,
    to_flag,
    to_flags,
    to_reward,
    unpack_reset,
    unpack_step,
)
from briskrl.envs.gym.snapshot import EnvState
from briskrl.envs.gym.user_code import user_traceback

LARGEST = float(np.finfo(np.float32).max)
FALSE: Any = np.False_
"""NumPy's bools are single objects, as Python's are."""
SEEDS = 2**31
"""Seeds of environments are below this, because many accept no larger ones."""

Rows = list[tuple[Array, Array]]
"""Each row of a buffer, and the same row flattened."""


class EnvGroup:
    """The environments first..first+count-1 of a batch; row k of the buffers is env first+k.

    The buffers are never replaced, so they may be views of shared memory.

    Args:
        factory: Makes each environment.
        first: Index of the first environment in the batch.
        buffers: `count` rows that steps are written to.
        episode: `count` rows that statistics of ended episodes are written to.
        exact: Whether states can be saved (the spec's `exact_state`); otherwise `set_state` begins
            new episodes.
        hold_ended: Do not begin a new episode after one has ended, until the next `start`.
        render_mode: Passed to Gymnasium.
        report_progress: Called before each environment is made, and after each one that is reset,
            saved or restored by a method for all of them.
    """

    def __init__(
        self,
        factory: EnvFactory,
        first: int,
        buffers: StepBuffers,
        episode: EpisodeRows,
        *,
        exact: bool = False,
        hold_ended: bool = False,
        render_mode: str | None = None,
        report_progress: Callable[[], None] = lambda: None,
    ) -> None:
        self.factory = factory
        self.first = first
        self.count = len(buffers.reward)
        self.buffers = buffers
        self.episode = episode
        self.envs: list[GymEnv] = []
        self._exact = exact
        self._hold = hold_ended
        self._render_mode = render_mode
        self._report_progress = report_progress
        try:
            for _ in range(self.count):
                report_progress()
                self.envs.append(factory.make(render_mode))
            obs_converter, action_converter = factory.make_converters(self.envs[0])
        except BaseException:
            self.close()
            raise
        self._write, self._convert = obs_converter.write, action_converter.convert
        self._limit = factory.max_steps or sys.maxsize
        self._clips = factory.config.expanded().clip_reward
        self._steps = [env.step for env in self.envs]
        self._masks = [_mask_method(env) for env in self.envs]
        self._obs, self._final = _rows(buffers.obs), _rows(buffers.final_obs)
        floats = obs_converter.spec.dtype == np.float32
        size = obs_converter.spec.size
        self._zeros = np.zeros(size, np.float32) if floats else None
        self._all_zeros = np.zeros(self.count * size, np.float32) if floats else None
        self._all_obs = buffers.obs.reshape(-1)
        self._reward, self._mask = buffers.reward, buffers.mask
        self._terminated, self._truncated = buffers.terminated, buffers.truncated
        self._lengths = [0] * self.count
        self._returns = [0.0] * self.count
        self._seeds = [0] * self.count
        self._held = [False] * self.count

    def start(self, seed: int) -> None:
        """Begin new episodes in all environments; env i of the batch gets seed + i."""
        for k in range(self.count):
            self._seeds[k] = (seed + self.first + k) % SEEDS
            self._begin(k, self._seeds[k])
            self._report_progress()

    def step(self, k: int, action: Any) -> None:
        """Step the environment of row k and write the whole row.

        Raises:
            EnvStepError: It raised, or returned values that are not finite or have a wrong shape.
        """
        self._advance(k, action)
        if self._zeros is not None:
            self._check_finite(k, self._obs[k][1])

    def step_all(self, actions: Array) -> bool:
        """Step every environment, with actions (count,) or (count, D).

        Returns:
            Whether any episode ended.

        Raises:
            EnvStepError: See `step`; some of the other environments may not have been stepped.
        """
        advance, ended = self._advance, False
        for k, action in enumerate(actions):
            if advance(k, action):
                ended = True
        # One check for all rows; single rows are checked only if it fails.
        if self._all_zeros is not None and self._all_obs.dot(self._all_zeros) != 0.0:
            for k, (_, flat) in enumerate(self._obs):
                self._check_finite(k, flat)
        return ended

    def _advance(self, k: int, action: Any) -> bool:
        """Step row k without checking that its observation is finite; whether the episode ended."""
        if self._held[k]:
            self.buffers.reward[k] = 0.0
            return False
        convert = self._convert
        try:
            result = self._steps[k](action if convert is None else convert(action))
        except Exception as error:
            raise self._error(k, "raised in step", error) from error
        try:
            obs, reward, terminated, truncated, info = result
            if type(reward) is not float:
                reward = float(reward) if type(reward) in NUMBERS else to_reward(reward)
            # The cheapest comparisons find the common case, an episode that continues.
            if (terminated is not False and terminated is not FALSE) or (
                truncated is not False and truncated is not FALSE
            ):
                terminated, truncated = to_flags(terminated, truncated)
        except (TypeError, ValueError) as error:
            raise self._invalid_step(k, result, error) from error
        if not -LARGEST <= reward <= LARGEST:
            raise self._error(k, f"returned the reward {reward}")
        length = self._lengths[k] + 1
        self._reward[k] = reward if not self._clips else (reward > 0) - (reward < 0)
        if terminated or truncated or length >= self._limit:
            self._end(k, length, self._returns[k] + reward, obs, info)
            self._terminated[k] = terminated
            self._truncated[k] = not terminated
            return True
        self._lengths[k] = length
        self._returns[k] += reward
        self._terminated[k] = self._truncated[k] = False
        try:
            self._write(obs, self._obs[k][0])
        except (ValueError, TypeError) as error:
            raise self._error(k, "returned", error) from error
        if self._mask is not None:
            self._write_mask(k, info, self._mask)
        return False

    def replace_env(self, k: int, seed: int) -> None:
        """Replace the environment of row k by a new instance that begins an episode.

        Writes obs and mask; the caller writes the other values of the row.
        """
        with suppress(Exception):
            self.envs[k].close()
        self._report_progress()
        self.envs[k] = self.factory.make(self._render_mode)
        self._report_progress()
        self._steps[k] = self.envs[k].step
        self._masks[k] = _mask_method(self.envs[k])
        self._seeds[k] = seed % SEEDS
        self._begin(k, self._seeds[k])

    def running(self, k: int) -> tuple[float, int]:
        """Return and length so far of the current episode in row k."""
        return self._returns[k], self._lengths[k]

    def get_state(self) -> list[str]:
        """The state of each environment, one JSON text each."""
        return [self._state_text(k) for k in range(self.count)]

    def set_state(self, states: Sequence[str]) -> None:
        """Restore states that `get_state` returned.

        Environments whose state could not be saved begin new episodes, with seeds derived from
        their last one, and write obs and mask. The others do not write to the buffers.
        """
        for k, text in enumerate(states):
            self._report_progress()
            state = EnvState.from_text(text)
            if state.env is None:
                self._seeds[k] = snapshot.next_seed(state.seed, SEEDS)
                self._begin(k, self._seeds[k])
                continue
            self.envs[k].reset(seed=0)
            with invalid_state(f"the state of environment {self.first + k}"):
                snapshot.restore(self.envs[k], state.env)
            self._seeds[k], self._held[k] = state.seed, state.held
            self._lengths[k], self._returns[k] = state.steps, state.returns

    def close(self) -> None:
        """Close every environment; may be called twice."""
        for env in self.envs:
            with suppress(Exception):
                env.close()

    def _state_text(self, k: int) -> str:
        self._report_progress()
        state = snapshot.take(self.envs[k]) if self._exact else None
        episode = self._lengths[k], self._returns[k]
        return EnvState(state, self._seeds[k], *episode, self._held[k]).to_text()

    def _invalid_step(self, k: int, result: Any, error: Exception) -> EnvStepError:
        try:
            unpack_step(result)
        except ValueError as wrong_count:
            return self._error(k, "returned", wrong_count)
        return self._error(k, "returned", error)

    def _begin(self, k: int, seed: int | None) -> None:
        try:
            result = self.envs[k].reset(seed=seed)
        except Exception as error:
            raise self._error(k, "raised in reset", error) from error
        try:
            obs, info = unpack_reset(result)
        except ValueError as error:
            raise self._error(k, "returned", error) from error
        self._lengths[k], self._returns[k] = 0, 0.0
        self._held[k] = False
        self._observe(k, obs, info, self._obs, self.buffers.mask)

    def _end(self, k: int, length: int, returns: float, obs: Any, info: Mapping[str, Any]) -> None:
        """Write the statistics and last observation of an ended episode and begin the next one."""
        self.episode.returns[k], self.episode.steps[k] = returns, length
        try:
            self.episode.won[k] = to_flag('"is_success"', check_info(info).get("is_success", False))
        except ValueError as error:
            raise self._error(k, "returned", error) from error
        self._observe(k, obs, info, self._final, self.buffers.final_mask)
        if self._hold:
            self._held[k] = True
            self._observe(k, obs, info, self._obs, self.buffers.mask)
            return
        self._begin(k, None)

    def _observe(
        self, k: int, obs: Any, info: Mapping[str, Any], rows: Rows, mask: Bools | None
    ) -> None:
        """Write one observation to row k, and its action mask if there is one."""
        row, flat = rows[k]
        try:
            self._write(obs, row)
        except (ValueError, TypeError) as error:
            raise self._error(k, "returned", error) from error
        if self._zeros is not None:
            self._check_finite(k, flat)
        if mask is not None:
            self._write_mask(k, info, mask)

    def _check_finite(self, k: int, row: Array) -> None:
        # Infinity and NaN times zero are NaN, so one dot product checks the whole row.
        assert self._zeros is not None
        if row.dot(self._zeros) != 0.0:
            raise self._error(k, "returned an observation that is not finite")

    def _write_mask(self, k: int, info: Mapping[str, Any], mask: Bools) -> None:
        action_masks = self._masks[k]
        try:
            legal = info.get("action_mask") if action_masks is None else action_masks()
            array = np.asarray(legal)
        except Exception as error:
            raise self._error(k, "raised in its action mask", error) from error
        row = mask[k]
        if legal is None or array.size != row.size:
            got = "no action_mask" if legal is None else f"an action_mask of {array.size}"
            raise self._error(k, f"returned {got} for {row.size} actions")
        if array.dtype.kind not in "biuf":
            raise self._error(k, f"returned an action_mask of dtype {array.dtype}")
        row[:] = array.reshape(-1)

    def _error(self, k: int, what: str, error: Exception | None = None) -> EnvStepError:
        index = self.first + k
        cause = ""
        if error is not None:
            cause = f" {error}" if what == "returned" else f": {type(error).__name__}: {error}"
        message = f"Environment {index} ({self.factory.name}) {what}{cause}."
        if error is not None and what != "returned":
            message = "\n\n".join(filter(None, [message, user_traceback(error)]))
        return EnvStepError(message, index)


def _rows(array: Array) -> Rows:
    return [(row, row.reshape(-1)) for row in array]


def _mask_method(env: GymEnv) -> Callable[[], Any] | None:
    """The environment's `action_masks` method; None if masks come in its infos."""
    found: Callable[[], Any] | None = None
    if env.has_wrapper_attr("action_masks"):
        found = env.get_wrapper_attr("action_masks")
    return found
