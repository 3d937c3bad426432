"""Vector environments that reset ended envs in the next step of all envs (NEXT_STEP).

That next step is not a transition of the envs it resets. The adapter therefore holds a transition
that ends an episode back until the next step has returned the first observation of the new one, and
then delivers it whole. A trainer that receives the envs that are ready stores each transition once
and never stores a reset as a transition.
"""

from __future__ import annotations

import numpy as np

from briskrl.core.errors import BriskError
from briskrl.core.types import Array, Bools, Ints, StepBuffers, action_layout
from briskrl.envs.gym.vector import AnyVectorEnv, GymVectorBatch


class NextStepAdapter(GymVectorBatch):
    """N envs that only step together; transitions are delivered once they are complete."""

    lockstep = True
    """All envs must be given an action before any of them can step."""
    min_ready = 1

    def __init__(self, env: AnyVectorEnv) -> None:
        super().__init__(env)
        shape, dtype = action_layout(self.env_spec)
        self._actions = np.zeros((self.num_envs, *shape), dtype)
        self._sent: Bools = np.zeros(self.num_envs, np.bool_)
        self._held: Bools = np.zeros(self.num_envs, np.bool_)
        """(N,): the episode has ended and the next one has not begun."""
        self._lost: Bools = np.zeros(self.num_envs, np.bool_)
        """(N,): the env was stepped without an action of its own."""

    @property
    def async_env(self) -> NextStepAdapter:
        """See VecEnv.async_env."""
        return self

    def start(self, seed: int, out: StepBuffers) -> None:
        """Begin new episodes in all envs, env i with seed + i; writes obs and mask."""
        for flags in (self._sent, self._held, self._lost):
            flags[:] = False
        super().start(seed, out)

    def send(self, actions: Array, ids: Ints) -> None:
        """Store the actions (M,) of the envs `ids` (M,) for the next step of all envs.

        Raises:
            BriskError: One of them was stepped since it was last received.
        """
        if self._lost[ids].any():
            raise self._incomplete_actions()
        self._actions[ids] = actions
        self._sent[ids] = True

    def recv(self, min_ready: int, timeout: float | None, out: StepBuffers) -> Ints:
        """Step all envs until at least one transition is complete.

        Returns:
            The ids (M,) of complete transitions, which are in the first M rows of `out`.

        Raises:
            BriskError: Some envs have been given no action while others have.
        """
        resting = ~(self._sent | self._held)
        if resting.any() and self._sent.any():
            raise self._incomplete_actions()
        if not (self._sent | self._held).any():
            raise BriskError("recv was called although nothing was sent.")
        # If nothing was sent, the caller collects the held transitions before it restarts all envs.
        self._lost |= resting
        ready = self._step()
        while not ready.any():
            ready = self._step()
        ids = np.flatnonzero(ready)
        self._copy_rows(ids, out)
        return ids

    def _step(self) -> Bools:
        """One step of the vector environment; which envs have a complete transition."""
        own, held = self._own, self._held.copy()
        moved = self._sent & ~held
        obs, reward, terminated, truncated, infos = self._env.step(self._convert_all(self._actions))
        fresh = StepBuffers.allocate(self.env_spec, self.num_envs)
        ended = self._write_outcome(reward, terminated, truncated, fresh) & moved
        for name in ("reward", "terminated", "truncated"):
            getattr(own, name)[moved] = getattr(fresh, name)[moved]
        self._write_obs(obs, own.obs)
        own.final_obs[ended] = own.obs[ended]
        self._write_mask(infos, own.mask)
        if own.final_mask is not None and own.mask is not None:
            own.final_mask[ended] = own.mask[ended]
        self._count_step(own, moved)
        self._sent[:] = False
        self._held[:] = ended
        complete: Bools = (moved & ~ended) | held
        return complete

    def _copy_rows(self, ids: Ints, out: StepBuffers) -> None:
        count, own = len(ids), self._own
        for name in ("obs", "reward", "terminated", "truncated", "final_obs", "mask", "final_mask"):
            rows, source = getattr(out, name), getattr(own, name)
            if rows is not None:
                rows[:count] = source[ids]

    def _incomplete_actions(self) -> BriskError:
        return BriskError(
            "This vector environment resets in the next step (NEXT_STEP), so its envs can only "
            "step together, but the algorithm lets some of them wait. Make it with autoreset_mode "
            "SAME_STEP or DISABLED, train by id (gym:ID), or use an off-policy algorithm."
        )
