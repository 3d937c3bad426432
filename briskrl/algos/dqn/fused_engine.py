"""Value learning on the fused engine: acting, and all updates that are due, are one call each."""

from __future__ import annotations

import weakref
from collections.abc import Callable
from typing import NamedTuple

import numpy as np

from briskrl.algos.dqn.engine import DQNModel
from briskrl.algos.dqn.exploration import EpsilonGreedy
from briskrl.algos.dqn.kernels import act as act_kernels
from briskrl.algos.dqn.kernels import paired_threads as partners
from briskrl.algos.dqn.kernels import td_update as contexts
from briskrl.algos.dqn.kernels import updates as updates_kernels
from briskrl.algos.dqn.kernels.heads import Heads
from briskrl.algos.dqn.policy import support_of
from briskrl.compiler.packed_args import PackedArgs
from briskrl.core.types import Array, Batch, Bools, Floats, Ints, aligned_zeros
from briskrl.fused.kernels.packing import pack_net
from briskrl.fused.kernels.structs import Net, Optimizer
from briskrl.fused.layer_table import LayerTable
from briskrl.fused.network import (
    build_gradient_parts,
    build_input_transform,
    build_net,
    build_optimizer,
    build_workspace,
    retarget,
)
from briskrl.nets.bodies import MLPBody
from briskrl.nets.flat_parameters import SPARE, FlatParameters
from briskrl.nets.heads import QHead
from briskrl.nets.q_network import QNetwork
from briskrl.parallel.assistant import Assistant
from briskrl.parallel.worker import Sign

_NO_MASK = np.zeros((0, 0), np.bool_)
_NO_MASKS = np.zeros((1, 0, 0), np.bool_)

FOREVER = 1 << 62
BATCHES = 2
"""How many are in use: one is learnt from while the other is filled."""
PATIENCE = 3000
"""Looks for something to do before the assistant sleeps, about a millisecond in all: longer than
what comes between two rounds of updates, as one that has slept must first be brought in step."""


PackedTask = PackedArgs[updates_kernels.Task]
UpdateLoop = Callable[[PackedTask], None]
"""loop(task) does the updates of a task with `updates_kernels.do_update`, in order."""


class _BatchPlan(NamedTuple):
    """What is to be done with one batch's buffers."""

    batch: Batch
    context: contexts.UpdateContext
    task: PackedTask


class FusedDQNEngine:
    """See ValueEngine; for networks that are made of dense layers alone.

    With two threads a batch is computed in two parts, one of them by an assistant if it is awake.
    Results depend on the number of parts, but not on who computes them; a partner has a copy of the
    network and keeps it in step.

    Args:
        parts: What to act and learn with.
        explore: Where random actions come from.
        inputs: Numbers of one observation.
        threads: Threads to use; more than two are of no use.
        overlap: Acting goes on while updates are under way in another thread. It follows the
            network as it was before them. Meanwhile `precompute_targets` prepares what it can of
            the next updates, and then `help_until` takes half of those under way.
    """

    def __init__(
        self,
        parts: DQNModel,
        explore: EpsilonGreedy,
        inputs: int,
        *,
        threads: int = 1,
        overlap: bool = False,
    ) -> None:
        self._parts = parts
        self._explore = explore
        self._online, plan, self._heads = _net_of(parts, parts.online, parts.online_flat, inputs)
        self._target, _, _ = _net_of(parts, parts.target, parts.target_flat, inputs)
        self._copy = _copy_of(self._online) if overlap else self._online
        self._partner = _copy_of(self._online)
        dtype = self._online.values.dtype
        self._splits = overlap or threads > 1
        self._precomputes = overlap and self._can_precompute
        flat = parts.online_flat
        self._whole = build_gradient_parts(plan, flat, 1, 1)
        self._halves = build_gradient_parts(plan, flat, 2, 2) if self._splits else self._whole
        works = [build_workspace(plan, flat, self._whole, 0, 0)]
        if self._splits:
            halves = self._halves
            aside = build_workspace(plan, flat, halves, 0, 1)
            works += [
                retarget(works[0], flat, halves, side, part) for side, part in np.ndindex(2, 2)
            ]
            works += [retarget(aside, flat, halves, side, 1) for side in range(2)]
        self._works = tuple(works)
        self._acting = build_workspace(plan, flat, self._whole, 0, 0)
        self._reading = build_input_transform(parts.online.inputs, dtype)
        self._own_actor, self._other_actor, self._partners_actor = (
            PackedArgs(act_kernels.Actor(net, self._heads, self._reading, self._acting))
            for net in (self._online, self._copy, self._partner)
        )
        self._actor = self._own_actor
        self._optimizer = build_optimizer(parts.guard, parts.online_flat)
        self._greedy = np.zeros(0, np.int64)
        self._noise_size = plan.num_noise
        self._totals = np.zeros(2)
        self._board = np.zeros(partners.MAILBOX_SIZE, np.int64)
        self._partners_optimizer = _copy_of_optimizer(self._partner, self._optimizer)
        self._plans: dict[int, _BatchPlan] = {}
        self._now: _BatchPlan | None = None
        self._has_assistant = threads > 1 and not overlap
        self._assistant: Assistant | None = None
        self.refresh()

    def refresh(self) -> None:
        """See ValueEngine."""
        pack_net(self._online)
        pack_net(self._target)
        self._board[partners.IN_STEP] = -1
        self.forget()

    def refresh_target(self) -> None:
        """See ValueEngine."""
        pack_net(self._target)

    def act(self, obs: Array, mask: Bools | None, epsilon: float, out: Ints) -> None:
        """See ValueEngine."""
        count = len(obs)
        if len(self._greedy) != count:
            self._greedy = np.zeros(count, np.int64)
        if self._noise_size:
            parts = self._parts
            net = self._actor.value.net
            net.noise[:] = parts.online.draw_noise(parts.acting_noise).numpy()
            pack_net(net)
        act_kernels.act_greedily(
            self._actor,
            obs.reshape(count, -1),
            _NO_MASK if mask is None else mask,
            self._explore.draw(count),
            epsilon,
            self._greedy,
            out,
        )

    def update(self, batch: Batch, updates: int, before: int) -> Floats:
        """See ValueEngine."""
        updates_kernels.run_updates(self.prepare(batch, updates, before), 0)
        return self.conclude(batch)

    def prepare(self, batch: Batch, updates: int, before: int) -> PackedTask:
        """What compiled code needs to do updates; `conclude` follows these.

        Args:
            batch: What to learn from.
            updates: How many updates to do.
            before: How many were done before.
        """
        self._now = plan = self._plan_for(batch)
        rules = updates, before, self._period, self._parts.config.double, self._whole_of(updates)
        plan.context.rules[: contexts.PRECOMPUTED] = rules
        self._draw_noise(plan.context, updates)
        if self._assistant is not None:
            self._assistant.wake()
        return plan.task

    def conclude(self, batch: Batch) -> Floats:
        """The updates of a batch are done; returns sizes of errors as `update` does."""
        context = self._plan_for(batch).context
        context.rules[contexts.PRECOMPUTED :] = 0
        self._parts.guard.check()
        errors: Floats = context.errors
        return errors

    def precompute_targets(
        self, batch: Batch, updates: int, now: int, before: int
    ) -> PackedTask | None:
        """Compute what does not depend on updates still under way in another thread.

        Args:
            batch: What will be learnt from next; nobody else is at it.
            updates: How many updates of it there will be.
            now: How many had been done when those under way began.
            before: How many will have been done when those under way end.

        Returns:
            What those to come are `prepare`d as; None if that cannot be told before they begin.
        """
        if not self._can_precompute:
            return None
        period, task = self._period, self.prepare(batch, updates, before)
        if before // period == now // period:
            updates_kernels.precompute_targets(task, min(updates, period - before % period))
        return task

    def prefetch(self, batch: Batch, number: int) -> None:
        """The updates of a batch, prepared, may be begun under a number; see `run_updates`."""
        self._plan_for(batch).context.rules[contexts.PREFETCHED] = number

    def forget(self) -> None:
        """Take back whatever was foretold: the batches will be others, or the networks are."""
        for plan in self._plans.values():
            plan.context.rules[contexts.PRECOMPUTED :] = 0

    def freeze_actor(self, batch: Batch) -> None:
        """Act with the network as it is until `unfreeze_actor`: another thread updates it."""
        self._plan_for(batch)
        if self._board[partners.IN_STEP] == self._board[partners.STEPS]:
            # The partner's is a copy too, and in the cache of whoever has assisted.
            self._actor = self._partners_actor
            return
        np.copyto(self._copy.packed, self._online.packed)
        if self._noise_size:
            np.copyto(self._copy.values, self._online.values)
        self._actor = self._other_actor

    def unfreeze_actor(self) -> None:
        """Those updates are done, and acting follows them."""
        self._actor = self._own_actor

    def help_until(self, batch: Batch, end: Sign) -> None:
        """Lend updates of an expected batch in another thread a hand until a sign is given."""
        partners.help_until(self._plan_for(batch).task, *end, FOREVER)

    def drain(self) -> dict[str, float]:
        """See ValueEngine."""
        total, count = self._totals.tolist()
        self._totals.fill(0)
        return {"loss": total / count} if count else {}

    @property
    def _can_precompute(self) -> bool:
        """Whether batches and the target net are settled some time before their update comes."""
        config = self._parts.config
        return self._period > 0 and not config.noisy and not config.prioritized

    def _whole_of(self, updates: int) -> int:
        """From which of some updates on batches are split.

        Whoever foretells has enough to do for most of the time, and lends a hand then. Half of a
        batch takes more than half of the time.
        """
        if not self._splits:
            return updates
        return updates - updates * 3 // 8 if self._precomputes else 0

    @property
    def _period(self) -> int:
        """Updates between refreshes of the target net, 0 if those go by something else."""
        config = self._parts.config
        return config.target_every if config.target_unit == "updates" else 0

    def _plan_for(self, batch: Batch) -> _BatchPlan:
        """What is to be done with a batch's buffers, which come again and again."""
        found = self._plans.get(id(batch))
        if found is None or found.batch is not batch:
            found = self._add_plan(batch)
        if self._has_assistant and found is not self._now:
            self._stop_helper()
            self._start_helper(found.task)
        return found

    def _add_plan(self, batch: Batch) -> _BatchPlan:
        context = replica = self._prepare(batch)
        if self._splits:
            replica = context._replace(online=self._partner, optimizer=self._partners_optimizer)
        task = PackedArgs(updates_kernels.Task(context, replica, self._works, self._acting))
        if self._splits and not self._plans:
            # Compiled here and now: a thread would be at it while the first updates are done.
            partners.help_until(task, self._board, partners.LEAVE, 1, 0)
        if len(self._plans) == BATCHES:
            self._plans.pop(next(iter(self._plans)))
        added = self._plans[id(batch)] = _BatchPlan(batch, context, task)
        return added

    def _prepare(self, batch: Batch) -> contexts.UpdateContext:
        updates, size = batch.reward.shape
        return contexts.UpdateContext(
            online=self._online,
            target=self._target,
            heads=self._heads,
            reading=self._reading,
            optimizer=self._optimizer,
            batch=contexts.Transitions(
                obs=batch.obs.reshape(updates, size, -1),
                action=batch.action,
                reward=batch.reward,
                next_obs=batch.next_obs.reshape(updates, size, -1),
                discount=batch.discount,
                weight=batch.weight,
                next_mask=_NO_MASKS if batch.next_mask is None else batch.next_mask,
            ),
            noise=np.zeros((updates, 2, self._noise_size), self._online.values.dtype),
            rules=np.zeros(contexts.NUM_RULES, np.int64),
            ahead=np.zeros(
                (updates, size, self._heads.actions * len(self._heads.support)),
                self._online.values.dtype,
            ),
            targets=np.zeros((updates, size, len(self._heads.support)), self._online.values.dtype),
            errors=np.zeros((updates, size), np.float32),
            totals=self._totals,
            whole=self._whole,
            parts=self._halves,
            board=self._board,
        )

    def _start_helper(self, task: PackedTask) -> None:
        # Nothing here refers to this object, which the thread would keep alive.
        board = self._board
        board[partners.LEAVE] = 0

        def leave() -> None:
            board[partners.LEAVE] = 1

        self._assistant = Assistant(
            lambda: partners.help_until(task, board, partners.LEAVE, 1, PATIENCE), leave
        )
        self._end = weakref.finalize(self, self._assistant.stop)

    def _stop_helper(self) -> None:
        if self._assistant is not None:
            self._end()
            self._assistant = None

    def _draw_noise(self, context: contexts.UpdateContext, updates: int) -> None:
        """Noise for both networks and every update, in the order in which torch draws it."""
        parts = self._parts
        if not parts.config.noisy:
            return
        for noise in context.noise[:updates]:
            noise[0] = parts.online.draw_noise(parts.noise).numpy()
            noise[1] = parts.target.draw_noise(parts.noise).numpy()


def _copy_of(net: Net) -> Net:
    """A network of its own, with the same numbers."""
    spare = aligned_zeros((len(net.values) + SPARE,), net.values.dtype)
    return net._replace(
        values=spare[: len(net.values)],
        packed=net.packed.copy(),
        straight=net.straight.copy(),
        noise=net.noise.copy(),
    )


def _copy_of_optimizer(net: Net, optimizer: Optimizer) -> Optimizer:
    """An optimizer of its own for a copy of a network; the settings are shared."""
    copies = {name: getattr(optimizer, name).copy() for name in _COPIED}
    return optimizer._replace(values=net.values, **copies)


_COPIED = ("gradients", "mean", "variance", "count", "counters")


def _net_of(
    parts: DQNModel, network: QNetwork, flat: FlatParameters, inputs: int
) -> tuple[Net, LayerTable, Heads]:
    """A value network as kernels see it."""
    assert isinstance(network.body, MLPBody)
    head = network.head
    assert isinstance(head, QHead)
    support = support_of(parts.config, flat.values.device)
    plan = LayerTable(flat, inputs)
    features = plan.body(network.body, plan.obs)
    advantage = plan.dense(head.advantage, features)
    value = None if head.value is None else plan.dense(head.value, features)
    heads = Heads(
        advantage_at=advantage.at,
        advantage_row=advantage.row,
        value_at=-1 if value is None else value.at,
        value_row=0 if value is None else value.row,
        actions=head.actions,
        support=np.zeros(1, np.float32) if support is None else support.numpy(),
    )
    return build_net(plan, flat), plan, heads
