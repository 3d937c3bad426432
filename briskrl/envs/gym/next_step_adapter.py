"""Vector environments that spend a step of all envs on the reset of some (NEXT_STEP).

Such a step is no transition of the envs it resets. An ended transition is therefore held back until
the next step has shown the first observation of the new episode, and then handed over whole, so
that a trainer which receives from whoever is ready stores each transition once and none that never
happened.
"""

from __future__ import annotations

import numpy as np

from briskrl.core.errors import BriskError
from briskrl.core.types import Array, Bools, Ints, StepBuffers, action_layout
from briskrl.envs.gym.vector import AnyVectorEnv, GymBatch


class LockstepAdapter(GymBatch):
    """N envs that can only move together, handed over as their transitions are complete."""

    partial = True
    lockstep = True
    """No env can rest while the others go on."""
    min_ready = 1

    def __init__(self, env: AnyVectorEnv) -> None:
        super().__init__(env)
        shape, dtype = action_layout(self.env_spec)
        self._actions = np.zeros((self.num_envs, *shape), dtype)
        self._sent: Bools = np.zeros(self.num_envs, np.bool_)
        self._held: Bools = np.zeros(self.num_envs, np.bool_)
        """Where an episode has ended and the next one has not shown itself."""
        self._lost: Bools = np.zeros(self.num_envs, np.bool_)
        """Where an env was moved without having been told to."""

    def start(self, seed: int, out: StepBuffers) -> None:
        """Begin new episodes everywhere, env i with seed + i; writes obs and mask."""
        for flags in (self._sent, self._held, self._lost):
            flags[:] = False
        super().start(seed, out)

    def send(self, actions: Array, ids: Ints) -> None:
        """Keep the actions (M,) of the envs `ids` (M,) for the next step of all.

        Raises:
            BriskError: One of them has moved on since it was last heard of.
        """
        if self._lost[ids].any():
            raise self._cannot_rest()
        self._actions[ids] = actions
        self._sent[ids] = True

    def recv(self, min_ready: int, timeout: float | None, out: StepBuffers) -> Ints:
        """Step all envs until at least one transition is complete; returns the ids, rows first.

        Raises:
            BriskError: Some envs have been given no action while others have.
        """
        resting = ~(self._sent | self._held)
        if resting.any() and self._sent.any():
            raise self._cannot_rest()
        if not (self._sent | self._held).any():
            raise BriskError("recv was called although nothing was sent.")
        # Held transitions alone can only be asked for by someone who is about to begin anew.
        self._lost |= resting
        ready = self._step()
        while not ready.any():
            ready = self._step()
        ids = np.flatnonzero(ready)
        self._hand_over(ids, out)
        return ids

    def _step(self) -> Bools:
        """One step of the vector environment; which envs have a complete transition."""
        own, held = self._own, self._held.copy()
        moved = self._sent & ~held
        obs, reward, terminated, truncated, infos = self._env.step(self._read_all(self._actions))
        fresh = StepBuffers.allocate(self.env_spec, self.num_envs)
        ended = self._write_outcome(reward, terminated, truncated, fresh) & moved
        for name in ("reward", "terminated", "truncated"):
            getattr(own, name)[moved] = getattr(fresh, name)[moved]
        self._write_obs(obs, own.obs)
        own.final_obs[ended] = own.obs[ended]
        self._write_mask(infos, own.mask)
        if own.final_mask is not None and own.mask is not None:
            own.final_mask[ended] = own.mask[ended]
        self._note(own, moved)
        self._sent[:] = False
        self._held[:] = ended
        complete: Bools = (moved & ~ended) | held
        return complete

    def _hand_over(self, ids: Ints, out: StepBuffers) -> None:
        count, own = len(ids), self._own
        for name in ("obs", "reward", "terminated", "truncated", "final_obs", "mask", "final_mask"):
            rows, source = getattr(out, name), getattr(own, name)
            if rows is not None:
                rows[:count] = source[ids]

    def _cannot_rest(self) -> BriskError:
        return BriskError(
            "This vector environment resets in the next step (NEXT_STEP), so its envs can only "
            "move together, but the algorithm lets some of them rest. Make it with autoreset_mode "
            "SAME_STEP or DISABLED, train by id (gym:ID), or use an off-policy algorithm."
        )
