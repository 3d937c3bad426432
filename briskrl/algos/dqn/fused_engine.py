"""DQN on the fused engine: acting, and all updates that are due, are one compiled call each.

The loss and the TD targets are in `kernels/td_update.py`.
"""

from __future__ import annotations

import weakref
from typing import NamedTuple

import numpy as np

from briskrl.algos.dqn.engine import DQNModel, NoisePeriod
from briskrl.algos.dqn.exploration import EpsilonGreedy
from briskrl.algos.dqn.fused_network import build_network, copy_net, copy_optimizer
from briskrl.algos.dqn.kernels import act as act_kernels
from briskrl.algos.dqn.kernels import paired_threads as pairing
from briskrl.algos.dqn.kernels import td_update
from briskrl.algos.dqn.kernels import updates as updates_kernels
from briskrl.compiler.packed_args import PackedArgs
from briskrl.core.types import Array, Batch, Bools, Floats, Ints
from briskrl.fused.kernels.packing import pack_net
from briskrl.fused.kernels.structs import Workspace
from briskrl.fused.layer_table import LayerTable
from briskrl.fused.network import (
    build_gradient_parts,
    build_input_transform,
    build_optimizer,
    build_workspace,
    retarget,
)
from briskrl.parallel.thread_pool import Signal, ThreadPool

_NO_MASK = np.zeros((0, 0), np.bool_)
_NO_MASKS = np.zeros((1, 0, 0), np.bool_)

FOREVER = 1 << 62
"""Patience of a helper that must not return early."""
BATCHES = 2
"""Batches in use at a time: one is trained on while the other is filled."""
PATIENCE = 3000
"""Polls for work before the helper thread sleeps, about a millisecond in all. That is longer than
the pause between two rounds of updates; after a sleep its replica would have to be copied again."""

PackedTask = PackedArgs[updates_kernels.Task]


class _BatchPlan(NamedTuple):
    """The kernel arguments for one Batch, whose buffers are used again and again."""

    batch: Batch
    context: td_update.UpdateContext
    task: PackedTask


class FusedDQNEngine:
    """A DQNEngine for networks of dense layers, compiled as a whole.

    With two threads, batches are split in two halves, and a helper thread computes one of them if
    it is ready. It has a replica of network and optimizer, which it keeps up to date. Results
    depend on whether batches are split, but not on which thread computes a half.

    Args:
        model: Networks and optimizer.
        explore: Source of random actions.
        inputs: Numbers of one observation.
        threads: Threads to use; more than two have no effect.
        overlap: Another thread runs the updates while this one acts with the network as it was
            before them. Meanwhile this thread precomputes targets of the next updates
            (`precompute_targets`) and then helps with those under way (`help_until`).
    """

    def __init__(
        self,
        model: DQNModel,
        explore: EpsilonGreedy,
        inputs: int,
        *,
        threads: int = 1,
        overlap: bool = False,
    ) -> None:
        self._model = model
        self._explore = explore
        flat = model.online_flat
        self._online, table, self._heads = build_network(model, model.online, flat, inputs)
        self._target, _, _ = build_network(model, model.target, model.target_flat, inputs)
        self._frozen = copy_net(self._online) if overlap else self._online
        self._replica = copy_net(self._online)
        self._splits = overlap or threads > 1
        self._precomputes = overlap and self._can_precompute
        self._full_gradient = self._half_gradients = build_gradient_parts(table, flat, 1, 1)
        if self._splits:
            self._half_gradients = build_gradient_parts(table, flat, 2, 2)
        self._workspaces = self._build_workspaces(table)
        self._spare = build_workspace(table, flat, self._full_gradient, 0, 0)
        self._inputs = build_input_transform(model.online.inputs, self._online.values.dtype)
        # The best action does not depend on the range of returns, which may change while acting.
        acting_heads = self._heads._replace(support=self._heads.support.copy())
        self._online_actor, self._frozen_actor, self._replica_actor = (
            PackedArgs(act_kernels.Actor(net, acting_heads, self._inputs, self._spare))
            for net in (self._online, self._frozen, self._replica)
        )
        self._actor = self._online_actor
        self._optimizer = build_optimizer(model.optimizer, flat)
        self._greedy = np.zeros(0, np.int64)
        self._noise_size = table.num_noise
        self._noise_period = NoisePeriod(model.config.update_every)
        self._totals = np.zeros(2)
        self._mailbox = np.zeros(pairing.MAILBOX_SIZE, np.int64)
        self._replica_optimizer = copy_optimizer(self._replica, self._optimizer)
        self._plans: dict[int, _BatchPlan] = {}
        self._current: _BatchPlan | None = None
        self._has_assistant = threads > 1 and not overlap
        self._assistant: ThreadPool | None = None
        self.refresh()

    def _build_workspaces(self, table: LayerTable) -> tuple[Workspace, ...]:
        """A workspace for whole batches; if batches are split, also those of both threads."""
        flat, halves = self._model.online_flat, self._half_gradients
        whole = build_workspace(table, flat, self._full_gradient, 0, 0)
        if not self._splits:
            return (whole,)
        helper = build_workspace(table, flat, halves, 0, 1)
        return (
            whole,
            *(retarget(whole, flat, halves, side, half) for side, half in np.ndindex(2, 2)),
            *(retarget(helper, flat, halves, side, 1) for side in range(2)),
        )

    def refresh(self) -> None:
        """See DQNEngine."""
        pack_net(self._online)
        pack_net(self._target)
        self._noise_period.restart()
        self._mailbox[pairing.REPLICA_STEPS] = -1
        self.discard_precomputed()

    def refresh_target(self) -> None:
        """See DQNEngine."""
        pack_net(self._target)

    def act(self, obs: Array, mask: Bools | None, epsilon: float, out: Ints) -> None:
        """See DQNEngine."""
        count = len(obs)
        if len(self._greedy) != count:
            self._greedy = np.zeros(count, np.int64)
        if self._noise_size and self._noise_period.begins():
            model, net = self._model, self._actor.value.net
            net.noise[:] = model.online.draw_noise(model.acting_noise).numpy()
            pack_net(net)
        act_kernels.act_epsilon_greedy(
            self._actor,
            obs.reshape(count, -1),
            _NO_MASK if mask is None else mask,
            self._explore.draw(count),
            epsilon,
            self._greedy,
            out,
        )

    def update(self, batch: Batch, updates: int, before: int) -> Floats:
        """See DQNEngine."""
        updates_kernels.run_updates(self.prepare(batch, updates, before), 0)
        return self.finish(batch)

    def prepare(self, batch: Batch, updates: int, before: int) -> PackedTask:
        """The packed task of `run_updates`; call `finish` after the updates.

        Args:
            batch: The batch to train on.
            updates: How many updates to do.
            before: How many were done before.
        """
        self._current = plan = self._plan_for(batch)
        double, split_from = self._model.config.double, self._split_from(updates)
        params = updates, before, self._target_period, double, split_from
        plan.context.params[: td_update.PRECOMPUTED] = params
        self._optimizer.settings[0] = self._model.optimizer.adam.lr
        self._draw_noise(plan.context, updates)
        if self._assistant is not None:
            self._assistant.wake()
        return plan.task

    def finish(self, batch: Batch) -> Floats:
        """Finish the updates of a batch; returns the errors (K, B) as `update` does."""
        context = self._plan_for(batch).context
        context.params[td_update.PRECOMPUTED :] = 0
        self._model.optimizer.check()
        errors: Floats = context.errors
        return errors

    def precompute_targets(self, batch: Batch, updates: int, now: int, before: int) -> None:
        """Compute the TD targets of the next batch while another thread does updates.

        Args:
            batch: The next batch; no other thread uses it.
            updates: How many updates of it there will be.
            now: How many had been done when those under way began.
            before: How many will have been done when those under way end.
        """
        period = self._target_period
        if self._can_precompute and before // period == now // period:
            task = self.prepare(batch, updates, before)
            updates_kernels.precompute_targets(task, min(updates, period - before % period))

    def discard_precomputed(self) -> None:
        """Discard precomputed targets: batches or networks have changed."""
        for plan in self._plans.values():
            plan.context.params[td_update.PRECOMPUTED :] = 0

    def freeze_actor(self, batch: Batch, *, beyond_help: bool) -> None:
        """Act with the present network until `unfreeze_actor`, while another thread updates it."""
        self._plan_for(batch)
        current = self._mailbox[pairing.REPLICA_STEPS] == self._mailbox[pairing.STEPS]
        if current and not beyond_help:
            # The replica is a copy, too, and in the cache of the thread that helped, which changes
            # it when it helps again.
            self._actor = self._replica_actor
            return
        np.copyto(self._frozen.packed, self._online.packed)
        if self._noise_size:
            np.copyto(self._frozen.values, self._online.values)
        self._actor = self._frozen_actor

    def unfreeze_actor(self) -> None:
        """Act with the updated network again."""
        self._actor = self._online_actor

    def help_until(self, batch: Batch, end: Signal) -> None:
        """Help another thread with the updates of `batch` until the sign `end` is given."""
        pairing.help_until(self._plan_for(batch).task, *end, FOREVER)

    def drain(self) -> dict[str, float]:
        """See DQNEngine."""
        total, count = self._totals.tolist()
        self._totals.fill(0)
        return {"loss": total / count} if count else {}

    @property
    def _can_precompute(self) -> bool:
        """Whether batches and the target network are known some time before an update."""
        config = self._model.config
        return self._target_period > 0 and not config.noisy and not config.prioritized

    def _split_from(self, updates: int) -> int:
        """The first of some updates whose batch is split in halves.

        While targets are precomputed, the other thread is busy for most of the time and helps only
        with the last updates. Half of a batch takes more than half of the time, so the others are
        not split.
        """
        if not self._splits:
            return updates
        return updates - updates * 3 // 8 if self._precomputes else 0

    @property
    def _target_period(self) -> int:
        """Updates between refreshes of the target network; 0 if environment steps decide."""
        config = self._model.config
        return config.target_every if config.target_unit == "updates" else 0

    def _plan_for(self, batch: Batch) -> _BatchPlan:
        """The kernel arguments of a batch, built when it is first seen."""
        found = self._plans.get(id(batch))
        if found is None or found.batch is not batch:
            found = self._add_plan(batch)
        if self._has_assistant and found is not self._current:
            self._stop_helper()
            self._start_helper(found.task)
        return found

    def _add_plan(self, batch: Batch) -> _BatchPlan:
        context = replica = self._build_context(batch)
        if self._splits:
            replica = context._replace(online=self._replica, optimizer=self._replica_optimizer)
        task = PackedArgs(updates_kernels.Task(context, replica, self._workspaces, self._spare))
        if self._splits and not self._plans:
            # Compile it here: the helper thread would compile while the first updates are done.
            pairing.help_until(task, self._mailbox, pairing.LEAVE, 1, 0)
        if len(self._plans) == BATCHES:
            self._plans.pop(next(iter(self._plans)))
        added = self._plans[id(batch)] = _BatchPlan(batch, context, task)
        return added

    def _build_context(self, batch: Batch) -> td_update.UpdateContext:
        updates, size = batch.reward.shape
        return td_update.UpdateContext(
            online=self._online,
            target=self._target,
            heads=self._heads,
            input_transform=self._inputs,
            optimizer=self._optimizer,
            batch=td_update.Transitions(
                obs=batch.obs.reshape(updates, size, -1),
                action=batch.action,
                reward=batch.reward,
                next_obs=batch.next_obs.reshape(updates, size, -1),
                discount=batch.discount,
                weight=batch.weight,
                next_mask=_NO_MASKS if batch.next_mask is None else batch.next_mask,
            ),
            noise=np.zeros((updates, 2, self._noise_size), self._online.values.dtype),
            params=np.zeros(td_update.NUM_PARAMS, np.int64),
            tau=np.array([self._model.config.tau]),
            target_q=np.zeros(
                (updates, size, self._heads.actions * len(self._heads.support)),
                self._online.values.dtype,
            ),
            targets=np.zeros((updates, size, len(self._heads.support)), self._online.values.dtype),
            errors=np.zeros((updates, size), np.float32),
            totals=self._totals,
            full_gradient=self._full_gradient,
            half_gradients=self._half_gradients,
            mailbox=self._mailbox,
        )

    def _start_helper(self, task: PackedTask) -> None:
        # The closures must not refer to this object: the thread would keep it alive.
        mailbox = self._mailbox
        mailbox[pairing.LEAVE] = 0

        def leave() -> None:
            mailbox[pairing.LEAVE] = 1

        self._assistant = ThreadPool(
            1, lambda _: pairing.help_until(task, mailbox, pairing.LEAVE, 1, PATIENCE), leave
        )
        self._end = weakref.finalize(self, self._assistant.stop)

    def _stop_helper(self) -> None:
        if self._assistant is not None:
            self._end()
            self._assistant = None

    def _draw_noise(self, context: td_update.UpdateContext, updates: int) -> None:
        """Draw noise for both networks and every update, in the order of the torch engine."""
        model = self._model
        if not model.config.noisy:
            return
        for noise in context.noise[:updates]:
            noise[0] = model.online.draw_noise(model.noise).numpy()
            noise[1] = model.target.draw_noise(model.noise).numpy()
            if not model.config.target_noise:
                noise[1] = 0
