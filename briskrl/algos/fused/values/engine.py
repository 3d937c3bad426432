"""Value learning on the fused engine: acting, and all updates that are due, are one call each."""

from __future__ import annotations

import numpy as np

from briskrl.algos.explore import EpsilonGreedy
from briskrl.algos.fused.values import kernels
from briskrl.algos.q_policy import support_of
from briskrl.algos.value_engine import ValueParts
from briskrl.core.types import Array, Batch, Bools, Floats, Ints
from briskrl.fused.kernels import TILE_ROWS, Net, pack_net
from briskrl.fused.network import build_net, build_optimiser, build_reading, build_work
from briskrl.fused.plan import Plan
from briskrl.nets.bodies import MLPBody
from briskrl.nets.build import QNetwork
from briskrl.nets.flat import FlatParameters

_NO_MASK = np.zeros((0, 0), np.bool_)
_NO_MASKS = np.zeros((0, 0, 0), np.bool_)


class FusedValues:
    """See ValueEngine; for networks that are made of dense layers alone.

    Args:
        parts: What to act and learn with.
        explore: Where random actions come from.
        inputs: Numbers of one observation.
    """

    def __init__(self, parts: ValueParts, explore: EpsilonGreedy, inputs: int) -> None:
        self._parts = parts
        self._explore = explore
        self._online, plan, self._heads = _net_of(parts, parts.online, parts.online_flat, inputs)
        self._target, _, _ = _net_of(parts, parts.target, parts.target_flat, inputs)
        # Acting has a room of its own, so that it may go on while an update is under way.
        self._work, self._acting = (build_work(plan, parts.online_flat) for _ in range(2))
        self._padded = self._work.gradient.reshape(1, -1)
        self._reading = build_reading(parts.online.inputs, self._online.values.dtype)
        self._optimiser = build_optimiser(parts.guard, parts.online_flat)
        atoms = parts.config.atoms
        self._chosen = np.zeros(TILE_ROWS, np.int64)
        self._goals = np.zeros((TILE_ROWS, atoms), self._online.values.dtype)
        self._greedy = np.zeros(0, np.int64)
        self._errors = np.zeros((0, 0), np.float32)
        self._noise = np.zeros((0, 2, plan.num_noise), np.float32)
        self._rules = np.zeros(4, np.int64)
        self._losses = np.zeros(2)
        self._seen: Batch | None = None
        self.refresh()

    def refresh(self) -> None:
        """See ValueEngine."""
        pack_net(self._online)
        pack_net(self._target)

    def act(self, obs: Array, mask: Bools | None, epsilon: float, out: Ints) -> None:
        """See ValueEngine."""
        count = len(obs)
        if len(self._greedy) != count:
            self._greedy = np.zeros(count, np.int64)
        if len(self._online.noise):
            parts = self._parts
            self._online.noise[:] = parts.online.draw_noise(parts.noise).numpy()
            pack_net(self._online)
        kernels.act_greedily(
            self._online,
            self._heads,
            self._reading,
            self._acting,
            obs.reshape(count, -1),
            _NO_MASK if mask is None else mask,
            self._explore.draw(count),
            epsilon,
            self._greedy,
            out,
        )

    def update(self, batch: Batch, updates: int, before: int) -> Floats:
        """See ValueEngine."""
        if batch is not self._seen:
            self._look_at(batch)
        config = self._parts.config
        period = config.target_every if config.target_unit == "updates" else 0
        self._rules[:] = updates, before, period, config.double
        self._draw_noise(updates)
        kernels.update_values(
            self._online,
            self._target,
            self._heads,
            self._reading,
            self._work,
            self._padded,
            self._optimiser,
            self._batch,
            self._noise,
            self._rules,
            self._chosen,
            self._goals,
            self._errors,
            self._losses,
        )
        self._parts.guard.check()
        return self._errors

    def drain(self) -> dict[str, float]:
        """See ValueEngine."""
        total, count = self._losses.tolist()
        self._losses.fill(0)
        return {"loss": total / count} if count else {}

    def _look_at(self, batch: Batch) -> None:
        """Prepare for a batch's buffers, which come again and again."""
        updates, size = batch.reward.shape
        self._batch = kernels.Transitions(
            obs=batch.obs.reshape(updates, size, -1),
            action=batch.action,
            reward=batch.reward,
            next_obs=batch.next_obs.reshape(updates, size, -1),
            discount=batch.discount,
            weight=batch.weight,
            next_mask=_NO_MASKS if batch.next_mask is None else batch.next_mask,
        )
        self._errors = np.zeros((updates, size), np.float32)
        self._noise = np.zeros((updates, *self._noise.shape[1:]), np.float32)
        self._seen = batch

    def _draw_noise(self, updates: int) -> None:
        """Noise for both networks and every update, in the order in which torch draws it."""
        parts = self._parts
        if not parts.config.noisy:
            return
        for noise in self._noise[:updates]:
            noise[0] = parts.online.draw_noise(parts.noise).numpy()
            noise[1] = parts.target.draw_noise(parts.noise).numpy()


def _net_of(
    parts: ValueParts, network: QNetwork, flat: FlatParameters, inputs: int
) -> tuple[Net, Plan, kernels.Heads]:
    """A value network as kernels see it."""
    assert isinstance(network.body, MLPBody)
    head = network.head
    support = support_of(parts.config, flat.values.device)
    plan = Plan(flat, inputs)
    features = plan.body(network.body, plan.obs)
    advantage = plan.dense(head.advantage, features)
    value = None if head.value is None else plan.dense(head.value, features)
    heads = kernels.Heads(
        advantage_at=advantage.at,
        advantage_row=advantage.row,
        value_at=-1 if value is None else value.at,
        value_row=0 if value is None else value.row,
        actions=head.actions,
        support=np.zeros(1, np.float32) if support is None else support.numpy(),
    )
    return build_net(plan, flat), plan, heads
