"""Some environments of Gymnasium, stepped one at a time into rows of buffers.

A host is what the backends share: the sync backend has one, every worker process has one. It
applies the time limit with Gymnasium's meaning, restarts an ended episode in the step that ends it
and refuses whatever cannot be learnt from. Written for speed: a step of CartPole costs little more
than the environment's own step.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from briskrl.core.errors import EnvStepError
from briskrl.core.types import Array, Bools, StepBuffers
from briskrl.envs.gym import snapshot
from briskrl.envs.gym.env_factory import EnvRecipe, GymEnv
from briskrl.envs.gym.env_state import Record

LARGEST = float(np.finfo(np.float32).max)
SEEDS = 2**31
"""Seeds handed to environments lie below this: many of them take no larger ones."""


@dataclass(slots=True)
class EpisodeRows:
    """What is told about an episode in the step that ended it; other rows mean nothing."""

    returns: NDArray[np.float64]
    """(count,): sum of its rewards."""
    steps: NDArray[np.int64]
    """(count,): its length."""
    won: Bools
    """(count,): whether its last info said `is_success`."""

    @classmethod
    def allocate(cls, count: int) -> EpisodeRows:
        """Zeroed rows."""
        return cls(
            np.zeros(count, np.float64), np.zeros(count, np.int64), np.zeros(count, np.bool_)
        )


Rows = list[tuple[Array, Array]]
"""Each row of a buffer, and the same row flattened."""


class Host:
    """The environments first..first+count-1 of a batch, row k of the buffers being env first+k.

    Buffers and rows are views of `count` rows and never change, so they may be shared memory.

    Args:
        recipe: How each environment is made.
        first: Index of the first one in the batch.
        buffers: Where its steps are written.
        episode: Where ended episodes are told.
        exact: Whether states can be saved (the spec's `exact_state`); otherwise a restored host
            begins new episodes.
        hold_ended: An ended episode stays as it ended until the next `start`.
        render_mode: Passed to Gymnasium.
    """

    def __init__(
        self,
        recipe: EnvRecipe,
        first: int,
        buffers: StepBuffers,
        episode: EpisodeRows,
        *,
        exact: bool = False,
        hold_ended: bool = False,
        render_mode: str | None = None,
    ) -> None:
        self.recipe = recipe
        self.first = first
        self.count = len(buffers.reward)
        self.buffers = buffers
        self.episode = episode
        self.envs: list[GymEnv] = []
        self._exact = exact
        self._hold = hold_ended
        self._render_mode = render_mode
        try:
            for _ in range(self.count):
                self.envs.append(recipe.make(render_mode))
            observer, actor = recipe.layout(self.envs[0])
        except BaseException:
            self.close()
            raise
        self._write, self._read = observer.write, actor.read
        self._limit = recipe.max_steps or sys.maxsize
        self._steps = [env.step for env in self.envs]
        self._masks = [_mask_method(env) for env in self.envs]
        self._obs, self._final = _rows(buffers.obs), _rows(buffers.final_obs)
        floats = observer.spec.dtype == np.float32
        size = observer.spec.size
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
        """Begin new episodes everywhere, env i of the batch with seed + i."""
        for k in range(self.count):
            self._seeds[k] = (seed + self.first + k) % SEEDS
            self._begin(k, self._seeds[k])

    def step(self, k: int, action: Any) -> None:
        """Advance the environment of row k by one transition and write all of its row.

        Raises:
            EnvStepError: It raised, or returned what is not finite or of the wrong shape.
        """
        self._advance(k, action)
        if self._zeros is not None:
            self._check_finite(k, self._obs[k][1])

    def step_all(self, actions: Array) -> bool:
        """Advance every environment by one transition, with actions (count,) or (count, D).

        Returns:
            Whether an episode ended.

        Raises:
            EnvStepError: See `step`; the other environments may have been stepped or not.
        """
        advance, ended = self._advance, False
        for k, action in enumerate(actions):
            if advance(k, action):
                ended = True
        # One look at all rows instead of one at each: only a bad batch is searched.
        if self._all_zeros is not None and self._all_obs.dot(self._all_zeros) != 0.0:
            for k, (_, flat) in enumerate(self._obs):
                self._check_finite(k, flat)
        return ended

    def _advance(self, k: int, action: Any) -> bool:
        """Step row k without a look at whether its observation is finite; whether it ended."""
        if self._held[k]:
            self.buffers.reward[k] = 0.0
            return False
        read = self._read
        try:
            obs, reward, terminated, truncated, info = self._steps[k](
                action if read is None else read(action)
            )
            reward = float(reward)
        except Exception as error:
            raise self._failure(k, "raised in step", error) from error
        if not -LARGEST <= reward <= LARGEST:
            raise self._failure(k, f"returned the reward {reward}")
        length = self._lengths[k] + 1
        self._reward[k] = reward
        if terminated or truncated or length >= self._limit:
            self._end(k, length, self._returns[k] + reward, obs, info)
            self._terminated[k] = ended = bool(terminated)
            self._truncated[k] = not ended
            return True
        self._lengths[k] = length
        self._returns[k] += reward
        self._terminated[k] = self._truncated[k] = False
        try:
            self._write(obs, self._obs[k][0])
        except (ValueError, TypeError) as error:
            raise self._failure(k, "returned", error) from error
        if self._mask is not None:
            self._write_mask(k, info, self._mask)
        return False

    def revive(self, k: int, seed: int) -> None:
        """Replace the environment of row k by a new one that begins an episode.

        Writes obs and mask; the row's other values are left to the caller.
        """
        with suppress(Exception):
            self.envs[k].close()
        self.envs[k] = self.recipe.make(self._render_mode)
        self._steps[k] = self.envs[k].step
        self._masks[k] = _mask_method(self.envs[k])
        self._seeds[k] = seed % SEEDS
        self._begin(k, self._seeds[k])

    def running(self, k: int) -> tuple[float, int]:
        """Return and length so far of the episode under way in row k."""
        return self._returns[k], self._lengths[k]

    def get_state(self) -> list[str]:
        """Everything that decides the future of each environment, one JSON text each."""
        return [self._record(k) for k in range(self.count)]

    def set_state(self, records: Sequence[str]) -> None:
        """Continue from what get_state gave.

        Environments whose state could not be saved begin new episodes, with seeds of their own, and
        write obs and mask; the others leave the buffers alone.
        """
        for k, text in enumerate(records):
            record = Record.of_text(text)
            if record.env is None:
                self._seeds[k] = snapshot.next_seed(record.seed, SEEDS)
                self._begin(k, self._seeds[k])
                continue
            self.envs[k].reset(seed=0)
            snapshot.restore(self.envs[k], record.env)
            self._seeds[k], self._held[k] = record.seed, record.held
            self._lengths[k], self._returns[k] = record.steps, record.returns

    def close(self) -> None:
        """Close every environment; may be called twice."""
        for env in self.envs:
            with suppress(Exception):
                env.close()

    def _record(self, k: int) -> str:
        state = snapshot.take(self.envs[k]) if self._exact else None
        lived = self._lengths[k], self._returns[k]
        return Record(state, self._seeds[k], *lived, self._held[k]).as_text()

    def _begin(self, k: int, seed: int | None) -> None:
        try:
            obs, info = self.envs[k].reset(seed=seed)
        except Exception as error:
            raise self._failure(k, "raised in reset", error) from error
        self._lengths[k], self._returns[k] = 0, 0.0
        self._held[k] = False
        self._observe(k, obs, info, self._obs, self.buffers.mask)

    def _end(self, k: int, length: int, returns: float, obs: Any, info: dict[str, Any]) -> None:
        """Keep the last observation of an ended episode and begin the next one."""
        self.episode.returns[k], self.episode.steps[k] = returns, length
        self.episode.won[k] = bool(info.get("is_success", False))
        self._observe(k, obs, info, self._final, self.buffers.final_mask)
        if self._hold:
            self._held[k] = True
            self._observe(k, obs, info, self._obs, self.buffers.mask)
            return
        self._begin(k, None)

    def _observe(
        self, k: int, obs: Any, info: dict[str, Any], rows: Rows, mask: Bools | None
    ) -> None:
        """Write one observation, and legal actions if there is a mask, into row k."""
        row, flat = rows[k]
        try:
            self._write(obs, row)
        except (ValueError, TypeError) as error:
            raise self._failure(k, "returned", error) from error
        if self._zeros is not None:
            self._check_finite(k, flat)
        if mask is not None:
            self._write_mask(k, info, mask)

    def _check_finite(self, k: int, row: Array) -> None:
        # Infinity and NaN times zero are NaN, so one product tells whether a row is finite.
        assert self._zeros is not None
        if row.dot(self._zeros) != 0.0:
            raise self._failure(k, "returned an observation that is not finite")

    def _write_mask(self, k: int, info: dict[str, Any], mask: Bools) -> None:
        tell = self._masks[k]
        legal = info.get("action_mask") if tell is None else tell()
        row = mask[k]
        if legal is None or np.size(legal) != row.size:
            got = "no action_mask" if legal is None else f"an action_mask of {np.size(legal)}"
            raise self._failure(k, f"returned {got} for {row.size} actions")
        row[:] = np.asarray(legal).reshape(-1)

    def _failure(self, k: int, told: str, error: Exception | None = None) -> EnvStepError:
        index = self.first + k
        cause = ""
        if error is not None:
            cause = f" {error}" if told == "returned" else f": {type(error).__name__}: {error}"
        return EnvStepError(f"Environment {index} (gym:{self.recipe.id}) {told}{cause}.", index)


def _rows(array: Array) -> Rows:
    return [(row, row.reshape(-1)) for row in array]


def _mask_method(env: GymEnv) -> Callable[[], Any] | None:
    """The environment's own way to tell legal actions; without one, its infos have to."""
    found: Callable[[], Any] | None = None
    if env.has_wrapper_attr("action_masks"):
        found = env.get_wrapper_attr("action_masks")
    return found
