"""The fused engine's updates as tasks that another thread can run; see CompiledUpdates."""

from __future__ import annotations

from typing import TYPE_CHECKING

from briskrl.algos.dqn.fused_engine import FusedDQNEngine, PackedTask
from briskrl.algos.dqn.kernels.updates import run_prioritized_updates, run_updates
from briskrl.core.counters import Counters
from briskrl.core.types import Batch
from briskrl.memory.kernels.prioritized_sampling import PrioritizedSampler
from briskrl.parallel.thread_pool import Signal

if TYPE_CHECKING:
    from briskrl.algos.dqn.agent import DQN


class DQNCompiledUpdates:
    """Prepares and finishes updates of a DQN that computes with the fused engine.

    Args:
        agent: Counts the updates and decides when the target network is refreshed.
        engine: Does them.
    """

    run = staticmethod(run_updates)

    def __init__(self, agent: DQN, engine: FusedDQNEngine) -> None:
        self._agent = agent
        self._engine = engine

    @property
    def updates(self) -> int:
        """Updates done so far."""
        return self._agent.updates

    def begin_round(self) -> None:
        """Prepare for acting and updates at the same time."""
        if self._agent.renew_statistics():
            self._engine.discard_precomputed()

    def prepare(self, batch: Batch, updates: int, counters: Counters) -> PackedTask:
        """The task of doing the first `updates` updates of `batch`."""
        self._agent.before_updates(batch, updates, counters)
        return self._engine.prepare(batch, updates, self._agent.updates)

    def finish(self, batch: Batch, updates: int) -> None:
        """Count the updates of a task that has run."""
        self._engine.finish(batch)
        if self._agent.after_updates(batch, updates):
            self._engine.discard_precomputed()

    def update_prioritized(
        self, sampler: PrioritizedSampler, batch: Batch, updates: int, counters: Counters
    ) -> None:
        """Sample a batch, update, and set priorities, `updates` times in one compiled call."""
        run_prioritized_updates(sampler, self.prepare(batch, updates, counters))
        self.finish(batch, updates)

    def precompute_targets(
        self, batch: Batch, updates: int, *, started: int, finished: int
    ) -> None:
        """Compute the TD targets of `batch` that do not depend on the updates under way."""
        self._engine.precompute_targets(batch, updates, started, finished)

    def discard_precomputed(self) -> None:
        """Drop precomputed targets."""
        self._engine.discard_precomputed()

    def freeze_actor(self, batch: Batch, *, beyond_help: bool) -> None:
        """Act with the present network until `unfreeze_actor`."""
        self._engine.freeze_actor(batch, beyond_help=beyond_help)

    def unfreeze_actor(self) -> None:
        """Act with the updated network again."""
        self._engine.unfreeze_actor()

    def help_until(self, batch: Batch, end: Signal) -> None:
        """Share the updates under way on `batch` until the other thread signals their end."""
        self._engine.help_until(batch, end)
