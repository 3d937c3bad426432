"""Collect transitions from the environments that are ready first."""

from __future__ import annotations

import numpy as np

from briskrl.core.counters import Counters
from briskrl.core.phase import Phase, PhaseTimer
from briskrl.core.types import Bools, Decision, EpisodeStats, Ints, State, StepBuffers
from briskrl.envs.base import AsyncVecEnv
from briskrl.memory.base import Memory
from briskrl.training.collector import Actor, load_view, saved_view


class AsyncCollector:
    """Acts for the environments that have finished a step while the others are still stepping.

    Every transition is stored once, in the order of its environment. Environments for which the
    memory has no room (their column of a rollout is full) pause until it has; environments that can
    only step together go on, and transitions without room are not stored.

    Args:
        env: The environments.
        actor: Chooses the actions.
        memory: Where transitions are stored.
        timer: Counts the time of the phases.
        counters: Counts steps and episodes.
        on_policy: Whether only actions of the current policy may be stored.
    """

    def __init__(
        self,
        env: AsyncVecEnv,
        actor: Actor,
        memory: Memory,
        timer: PhaseTimer,
        counters: Counters,
        *,
        on_policy: bool,
    ) -> None:
        self._env = env
        self._actor = actor
        self._memory = memory
        self._timer = timer
        self._counters = counters
        self._min_ready = env.min_ready
        self._on_policy = on_policy
        self._lockstep = env.lockstep
        spec, num_envs = env.env_spec, env.num_envs
        self.now = StepBuffers.allocate(spec, num_envs)
        """Row i: the observation that env i acts on next, or acted on if it is stepping."""
        self._chosen = Decision.allocate(spec, num_envs)
        """Row i: the last decision for env i."""
        self._before = StepBuffers.allocate(spec, num_envs)
        self._decision = Decision.allocate(spec, num_envs)
        self._after = StepBuffers.allocate(spec, num_envs)
        self._stepping: Bools = np.zeros(num_envs, np.bool_)
        self._sent_at: Ints = np.zeros(num_envs, np.int64)
        """(N,): updates done when each env was last sent an action."""

    def start(self, seed: int) -> None:
        """Begin new episodes everywhere."""
        self.cancel_or_wait()
        self._env.start(seed, self.now)

    def collect(self) -> tuple[int, EpisodeStats]:
        """Send actions to all idle envs, then store the transitions that finish first."""
        timer = self._timer
        wanted = self._lockstep or self._memory.has_room
        free = np.flatnonzero(~self._stepping & wanted)
        if len(free):
            with timer[Phase.ACT]:
                self._decide(free)
            with timer[Phase.ENV]:
                self._env.send(self._chosen.action[free], free)
            self._stepping[free] = True
            self._sent_at[free] = self._counters.updates
        with timer[Phase.ENV]:
            ids = self._receive()
        with timer[Phase.STORE]:
            stored = self._store(ids)
        with timer[Phase.LOG]:
            ended = self._env.drain_stats()
        self._counters.env_steps += stored
        self._counters.episodes += ended.count
        return stored, ended

    def cancel_or_wait(self) -> None:
        """Wait for all envs that are stepping and discard their transitions."""
        while self._stepping.any():
            self._receive()

    @property
    def is_exact(self) -> bool:
        """False, because the order in which envs finish is not reproducible."""
        return False

    def state(self) -> State:
        """The last observations; the state of envs that are stepping cannot be saved."""
        return State(saved_view(self.now))

    def load_state(self, state: State) -> None:
        """Restore the saved observations; new episodes must begin."""
        self.cancel_or_wait()
        load_view(state.arrays, self.now)

    def _decide(self, ids: Ints) -> None:
        count = len(ids)
        obs = np.take(self.now.obs, ids, axis=0, out=self._before.obs[:count], mode="clip")
        mask = None
        if self.now.mask is not None and self._before.mask is not None:
            mask = np.take(self.now.mask, ids, axis=0, out=self._before.mask[:count], mode="clip")
        decision = Decision(self._decision.action[:count], self._decision.log_prob[:count])
        self._actor.act(obs, mask, self._counters, decision)
        self._chosen.action[ids] = decision.action
        self._chosen.log_prob[ids] = decision.log_prob

    def _receive(self) -> Ints:
        """Ids of the envs that have finished; their results are the first rows of `_after`."""
        wanted = min(self._min_ready, int(self._stepping.sum()))
        ids = self._env.recv(wanted, None, self._after)
        self._stepping[ids] = False
        return ids

    def _store(self, ids: Ints) -> int:
        """Store the transitions of the envs `ids` that count; returns their number."""
        now, before, after = self.now, self._before, self._after
        wanted = self._memory.has_room[ids]
        if self._on_policy:
            wanted = wanted & (self._sent_at[ids] == self._counters.updates)
        kept = ids[wanted]
        count = len(kept)
        np.take(now.obs, kept, axis=0, out=before.obs[:count], mode="clip")
        np.take(self._chosen.action, kept, axis=0, out=self._decision.action[:count], mode="clip")
        np.take(self._chosen.log_prob, kept, out=self._decision.log_prob[:count], mode="clip")
        now.obs[ids] = after.obs[: len(ids)]
        if now.mask is not None and before.mask is not None and after.mask is not None:
            np.take(now.mask, kept, axis=0, out=before.mask[:count], mode="clip")
            now.mask[ids] = after.mask[: len(ids)]
        if count < len(ids):
            _keep_rows(after, np.flatnonzero(wanted))
        if count:
            self._memory.write(before, self._decision, after, kept)
        return count


def _keep_rows(buffers: StepBuffers, rows: Ints) -> None:
    """Move these rows to the front, keeping their order."""
    for name in buffers.__slots__:
        array = getattr(buffers, name)
        if array is not None:
            array[: len(rows)] = array[rows]
