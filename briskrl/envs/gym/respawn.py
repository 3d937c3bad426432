"""Recovery from errors of environments in this process: a new episode in place of the lost one."""

from __future__ import annotations

import logging

import numpy as np

from briskrl.core.errors import EnvStepError
from briskrl.core.types import Array
from briskrl.envs.gym.env_group import EnvGroup

ADVICE = "With --on-env-error respawn, training would continue with new episodes."

MAX_IN_A_ROW = 10
"""Failures in quick succession after which training stops."""
CLOSE_STEPS = 10
"""Two failures with fewer steps between them are in quick succession."""
MAX_NOTES = 10
"""Failures that are kept as notes; all are counted."""

log = logging.getLogger(__name__)


class Respawner:
    """Steps the environments of a group, and replaces those that fail.

    The algorithm sees a lost episode as a truncated one: its last transition has reward 0, and its
    final observation is the last known one. The seed of the new episode depends on the seed of the
    run, the environment and the number of failures so far.

    Args:
        group: The environments.
        notes: Receives messages about the first failures.
    """

    def __init__(self, group: EnvGroup, notes: list[str]) -> None:
        self.respawns = 0
        """Failures after which new episodes were started."""
        self.seed = 0
        """The seed of the first episodes."""
        self._group = group
        self._notes = notes
        self._obs: Array = np.zeros_like(group.buffers.obs)
        mask = group.buffers.mask
        self._mask = None if mask is None else np.zeros_like(mask)
        self._in_a_row = np.zeros(group.count, np.int64)
        self._since = np.full(group.count, CLOSE_STEPS)
        """Steps of every environment since its last failure."""

    def step_all(self, actions: Array) -> bool:
        """Step every environment; returns whether any episode ended.

        Raises:
            EnvStepError: An environment failed too often.
        """
        group, buffers = self._group, self._group.buffers
        np.copyto(self._obs, buffers.obs)
        if self._mask is not None and buffers.mask is not None:
            np.copyto(self._mask, buffers.mask)
        self._since += 1
        for k, action in enumerate(actions):
            running = group.running(k)
            try:
                group.step(k, action)
            except EnvStepError as error:
                self._recover(k, running, error)
        return bool(buffers.terminated.any() or buffers.truncated.any())

    def _recover(self, k: int, running: tuple[float, int], error: EnvStepError) -> None:
        """Truncate the episode of row k and begin another one."""
        while True:
            self._count(k, error)
            self._truncate(k, running)
            words = np.random.SeedSequence([self.seed % 2**64, k, self.respawns])
            try:
                self._group.replace_env(k, int(words.generate_state(1, np.uint64)[0]))
            except EnvStepError as again:
                error = again
            else:
                return

    def _count(self, k: int, error: EnvStepError) -> None:
        close = self._since[k] < CLOSE_STEPS
        self._in_a_row[k] = self._in_a_row[k] + 1 if close else 1
        self._since[k] = 0
        if self._in_a_row[k] > MAX_IN_A_ROW:
            message = f"{error}\n\nIt was the last of {MAX_IN_A_ROW + 1} failures in a row."
            raise EnvStepError(message, error.index) from error
        self.respawns += 1
        what = str(error).splitlines()[0]
        log.warning("%s New episodes begin in its place (respawn %d).", what, self.respawns)
        if len(self._notes) < MAX_NOTES:
            self._notes.append(f"{what} New episodes began in its place.")

    def _truncate(self, k: int, running: tuple[float, int]) -> None:
        buffers, episode = self._group.buffers, self._group.episode
        buffers.reward[k] = 0.0
        buffers.terminated[k], buffers.truncated[k] = False, True
        buffers.final_obs[k] = self._obs[k]
        if buffers.final_mask is not None and self._mask is not None:
            buffers.final_mask[k] = self._mask[k]
        returns, steps = running
        episode.returns[k], episode.steps[k], episode.won[k] = returns, steps + 1, False
