"""Collecting experience from whichever environments are ready first."""

from __future__ import annotations

import numpy as np

from briskrl.algos.base import Algorithm
from briskrl.core.clock import Clock
from briskrl.core.phase import Phase, PhaseTimer
from briskrl.core.types import Bools, Decision, EpisodeStats, Ints, State, StepBuffers
from briskrl.envs.base import PartialVecEnv
from briskrl.memory.base import Memory
from briskrl.train.collector import load_view, saved_view


class PartialCollector:
    """Acts for the environments that have answered while the others are still at work.

    Every transition is stored once, in its environment's own order. Environments that the memory
    has no room for (their share of a rollout is full) rest until it has.
    """

    def __init__(
        self,
        env: PartialVecEnv,
        algo: Algorithm,
        memory: Memory,
        timer: PhaseTimer,
        clock: Clock,
        *,
        min_ready: int,
    ) -> None:
        self._env = env
        self._algo = algo
        self._memory = memory
        self._timer = timer
        self._clock = clock
        self._min_ready = min_ready
        spec, num_envs = env.env_spec, env.num_envs
        self.now = StepBuffers.allocate(spec, num_envs)
        """Row i: what env i acts on next, or acts on if it is at work."""
        self._chosen = Decision.allocate(spec, num_envs)
        """Row i: what was last decided for env i."""
        self._before = StepBuffers.allocate(spec, num_envs)
        self._decision = Decision.allocate(spec, num_envs)
        self._after = StepBuffers.allocate(spec, num_envs)
        self._at_work: Bools = np.zeros(num_envs, np.bool_)

    def start(self, seed: int) -> None:
        """Begin new episodes everywhere."""
        self.settle()
        self._env.start(seed, self.now)

    def collect(self) -> tuple[int, EpisodeStats]:
        """Send everybody who is free to work, then store what the first to finish bring."""
        timer = self._timer
        free = np.flatnonzero(~self._at_work & self._memory.accepts)
        if len(free):
            with timer[Phase.ACT]:
                self._decide(free)
            with timer[Phase.ENV]:
                self._env.send(self._chosen.action[free], free)
            self._at_work[free] = True
        with timer[Phase.ENV]:
            ids = self._receive()
        with timer[Phase.STORE]:
            self._store(ids)
        with timer[Phase.LOG]:
            ended = self._env.drain_stats()
        self._clock.env_steps += len(ids)
        self._clock.episodes += ended.count
        return len(ids), ended

    def settle(self) -> None:
        """Wait for everybody at work and forget what they bring."""
        while self._at_work.any():
            self._receive()

    @property
    def is_exact(self) -> bool:
        """Which environments are ready first is up to the machine."""
        return False

    def state(self) -> State:
        """The last observations; environments at work cannot be saved without waiting for them."""
        return State(saved_view(self.now))

    def load_state(self, state: State) -> None:
        """Remember the saved observations; new episodes have to begin."""
        self.settle()
        load_view(state.arrays, self.now)

    def _decide(self, ids: Ints) -> None:
        count = len(ids)
        obs = np.take(self.now.obs, ids, axis=0, out=self._before.obs[:count], mode="clip")
        mask = None
        if self.now.mask is not None and self._before.mask is not None:
            mask = np.take(self.now.mask, ids, axis=0, out=self._before.mask[:count], mode="clip")
        decision = Decision(self._decision.action[:count], self._decision.log_prob[:count])
        self._algo.act(obs, mask, self._clock, decision)
        self._chosen.action[ids] = decision.action
        self._chosen.log_prob[ids] = decision.log_prob

    def _receive(self) -> Ints:
        """The ids of environments that have finished, their rows first in `_after`."""
        wanted = min(self._min_ready, int(self._at_work.sum()))
        ids = self._env.recv(wanted, None, self._after)
        self._at_work[ids] = False
        return ids

    def _store(self, ids: Ints) -> None:
        count = len(ids)
        now, before, after = self.now, self._before, self._after
        np.take(now.obs, ids, axis=0, out=before.obs[:count], mode="clip")
        np.take(self._chosen.action, ids, axis=0, out=self._decision.action[:count], mode="clip")
        np.take(self._chosen.log_prob, ids, out=self._decision.log_prob[:count], mode="clip")
        if now.mask is not None and before.mask is not None and after.mask is not None:
            np.take(now.mask, ids, axis=0, out=before.mask[:count], mode="clip")
            now.mask[ids] = after.mask[:count]
        self._memory.write(before, self._decision, after, ids)
        now.obs[ids] = after.obs[:count]
