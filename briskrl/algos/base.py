"""The contracts that training requires of an algorithm and of the policy it produces."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, Protocol

from briskrl.core.counters import Counters
from briskrl.core.spec import EnvSpec
from briskrl.core.types import Array, Batch, Bools, Decision, Floats, Minibatch, Rollout, State

if TYPE_CHECKING:
    from briskrl.algos.engines import Engines
    from briskrl.algos.flops import Flops
    from briskrl.memory.kernels.prioritized_sampling import PrioritizedSampler
    from briskrl.parallel.native_worker import Args, Work
    from briskrl.parallel.thread_pool import Signal


class Algorithm(Protocol):
    """Networks, optimizer and loss; knows nothing about environments, files or processes."""

    engines: Engines[Any]
    """The available implementations of the arithmetic, and the one in use."""

    def act(self, obs: Array, mask: Bools | None, counters: Counters, out: Decision) -> None:
        """Write exploring actions for N environments into `out`."""
        ...

    def flops(self, num_envs: int) -> Flops:
        """Floating-point operations of acting and of one update, with `num_envs` environments."""
        ...

    def progress(self, counters: Counters) -> dict[str, float]:
        """Means since the last call (loss, gradient norm, ...) and current settings (epsilon)."""
        ...

    def state(self) -> dict[str, State]:
        """Everything that decides future updates; "model" is what a policy needs. Copies."""
        ...

    def load_state(self, state: dict[str, State]) -> None:
        """Continue from what `state` returned."""
        ...


class OffPolicyAlgorithm(Algorithm, Protocol):
    """Learns from transitions sampled from a replay buffer."""

    @property
    def compiled_updates(self) -> CompiledUpdates | None:
        """The fast update path; None where the current engine has none."""
        ...

    def update(self, batch: Batch, updates: int, counters: Counters) -> Floats:
        """Do the first `updates` gradient updates of `batch`, in order.

        Returns:
            (K, B) absolute TD errors, valid until the next call; may be zeros if the memory wants
            no feedback.

        Raises:
            DivergedError: Several updates in a row were not finite.
        """
        ...


class CompiledUpdates(Protocol):
    """Gradient updates in compiled code, which another thread can run without the interpreter.

    `prepare`, then `run` on the task it returns, then `finish` do what `update` of the algorithm
    does. While another thread runs a task, this thread may act with a frozen copy of the network
    (`freeze_actor`), prepare the next batch (`precompute_targets`) and share the work under way
    (`help_until`). None of this changes results.
    """

    run: Work
    """Kernel (task, number) that does the updates of a prepared task."""

    @property
    def updates(self) -> int:
        """Updates done so far."""
        ...

    def begin_round(self) -> None:
        """Prepare for a round of acting and updates at the same time; neither is under way."""
        ...

    def prepare(self, batch: Batch, updates: int, counters: Counters) -> Args:
        """The task of doing the first `updates` updates of `batch`."""
        ...

    def finish(self, batch: Batch, updates: int) -> None:
        """Count the updates of a task that has run.

        Raises:
            DivergedError: Several updates in a row were not finite.
        """
        ...

    def update_prioritized(
        self, sampler: PrioritizedSampler, batch: Batch, updates: int, counters: Counters
    ) -> None:
        """Sample a batch, update, and set priorities, `updates` times in one compiled call."""
        ...

    def precompute_targets(
        self, batch: Batch, updates: int, *, started: int, finished: int
    ) -> None:
        """Compute the TD targets of `batch` that do not depend on the updates under way.

        Args:
            batch: The batch to learn from next; no other thread uses it.
            updates: Updates that will be done on it.
            started: Updates that were done when those under way began.
            finished: Updates that will have been done when those under way end.
        """
        ...

    def discard_precomputed(self) -> None:
        """Drop precomputed targets, because batch or networks change."""
        ...

    def freeze_actor(self, batch: Batch, *, beyond_help: bool) -> None:
        """Act with the present network until `unfreeze_actor`; a thread updates on `batch`.

        Args:
            batch: What the updates under way learn from.
            beyond_help: Whether this thread acts on after `help_until`.
        """
        ...

    def unfreeze_actor(self) -> None:
        """Act with the updated network again."""
        ...

    def help_until(self, batch: Batch, end: Signal) -> None:
        """Share the updates under way on `batch` until the other thread signals their end."""
        ...


class OnPolicyAlgorithm(Algorithm, Protocol):
    """Learns from whole rollouts, the newest of which its current policy has collected."""

    def compute_advantages(self, rollouts: Sequence[Rollout], counters: Counters) -> None:
        """Fill in values, old log probabilities, importance weights, advantages and returns.

        Args:
            rollouts: The newest first; older ones only if the config reuses them.
            counters: Progress of the run.
        """
        ...

    def update(self, batch: Minibatch, counters: Counters) -> bool:
        """Do one gradient update, unless the policy has moved as far as it may (target KL).

        Returns:
            Whether the update was done and learning from these rollouts should go on.

        Raises:
            DivergedError: Several updates in a row were not finite.
        """
        ...


class Policy(Protocol):
    """An agent that acts without exploring: a trained network or a hand-written player."""

    @property
    def restart(self) -> Callable[[Bools], None] | None:
        """Clears the memory of the games in a mask (N,) that begin anew; None without a memory."""
        ...

    def act(self, obs: Array, mask: Bools | None) -> Array:
        """Greedy actions (N,) or (N, D) for observations (N, *obs)."""
        ...

    def fitted(self, spec: EnvSpec) -> Policy:
        """The same agent for environments of `spec`, whose board may have another size.

        Raises:
            ConfigError: Its network cannot be used there.
        """
        ...
