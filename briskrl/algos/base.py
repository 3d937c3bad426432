"""What the training loop asks of an algorithm and of the policy that comes out of it."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import AbstractContextManager
from typing import Any, Protocol

from briskrl.algos.engines import Engines
from briskrl.algos.flops import Flops
from briskrl.core.counters import Counters
from briskrl.core.spec import EnvSpec
from briskrl.core.types import Array, Batch, Bools, Decision, Floats, Minibatch, Rollout, State


class Algorithm(Protocol):
    """Networks, optimizer and loss; it knows nothing about envs, files or processes."""

    engines: Engines[Any]
    """Who can compute it, and who does."""

    def act(self, obs: Array, mask: Bools | None, counters: Counters, out: Decision) -> None:
        """Decide for N environments, exploring; writes `out`."""
        ...

    def behavior_cloning(self) -> AbstractContextManager[None]:
        """While entered, updates imitate whoever filled the memory."""
        ...

    def flops(self, num_envs: int) -> Flops:
        """How much arithmetic acting and learning are, with so many environments."""
        ...

    def progress(self, counters: Counters) -> dict[str, float]:
        """Means since the last call (loss, gradient norm, ...) and current settings (epsilon)."""
        ...

    def state(self) -> dict[str, State]:
        """Everything that decides future updates; part "model" is what a policy needs. Copies."""
        ...

    def load_state(self, state: dict[str, State]) -> None:
        """Continue from what `state` gave."""
        ...


class OffPolicy(Algorithm, Protocol):
    """Learns from transitions that a replay memory hands out in any order."""

    def update(self, batch: Batch, updates: int, counters: Counters) -> Floats:
        """Do the first `updates` gradient updates of `batch`, in order.

        Returns:
            (K, B) size of each transition's error, valid until the next call; zeros if the config
            asks for a memory that wants no feedback.

        Raises:
            DivergedError: Several updates in a row were not finite.
        """
        ...


class OnPolicy(Algorithm, Protocol):
    """Learns from whole rollouts, the newest of which its own policy has just collected."""

    def compute_advantages(self, rollouts: Sequence[Rollout], counters: Counters) -> None:
        """Fill in what learning needs: values, weights, anchors, advantages, returns.

        Args:
            rollouts: The newest first; older ones only if the config reuses them.
            counters: How far the run is.
        """
        ...

    def update(self, batch: Minibatch, counters: Counters) -> bool:
        """Do one gradient update, unless the policy has moved as far as it may.

        Returns:
            Whether the update was done and learning from these rollouts should go on.

        Raises:
            DivergedError: Several updates in a row were not finite.
        """
        ...


class Policy(Protocol):
    """An agent that only acts; those that are trained are FittingPolicy, too."""

    def act(self, obs: Array, mask: Bools | None) -> Array:
        """Greedy actions (N,) or (N, D) for observations (N, *obs)."""
        ...


class FittingPolicy(Policy, Protocol):
    """A trained agent, whose network may serve other sizes than it was trained with."""

    def fitted(self, spec: EnvSpec) -> FittingPolicy:
        """The same agent for environments that look like `spec`.

        Raises:
            ConfigError: Its network cannot be used there.
        """
        ...
