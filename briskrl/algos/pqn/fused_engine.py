"""PQN on the fused engine, on one thread or several; the kernels are in `kernels/update.py`."""

from __future__ import annotations

import numpy as np

from briskrl.algos.dqn.exploration import EpsilonGreedy
from briskrl.algos.dqn.fused_network import add_q_network
from briskrl.algos.dqn.kernels.act import mix_random_actions
from briskrl.algos.ppo.kernels.update import Trainable, take_step
from briskrl.algos.pqn.engine import PQNModel
from briskrl.algos.pqn.kernels import update as kernels
from briskrl.compiler.packed_args import PackedArgs
from briskrl.core.types import Array, Bools, Floats, Ints, Minibatch
from briskrl.fused.kernels.packing import pack_net
from briskrl.fused.kernels.structs import TILE_ROWS
from briskrl.fused.layer_table import LayerTable
from briskrl.fused.network import (
    build_gradient_parts,
    build_input_transform,
    build_net,
    build_optimizer,
    build_workspace,
)
from briskrl.parallel.thread_team import MOST_PARTS, ThreadTeam, bounds_of

NO_MASK = np.zeros((0, 0), np.bool_)

SMALLEST_PART = 128
"""Fewest rows of a part: adding up the gradients of smaller ones costs more than it saves."""


class FusedPQNEngine:
    """A PQNEngine for networks of dense layers, compiled as a whole.

    Rows are computed in fixed parts, whose gradients are added in a fixed order: results depend on
    the number of threads, but not on which thread computes which part.

    Args:
        model: Network and optimizer.
        explore: Source of random actions.
        inputs: Numbers of one observation.
        threads: Threads to use.
    """

    def __init__(
        self, model: PQNModel, explore: EpsilonGreedy, inputs: int, threads: int = 1
    ) -> None:
        self._model = model
        self._explore = explore
        table = LayerTable(model.flat, inputs)
        heads = add_q_network(table, model.network)
        self._actions = heads.actions
        self._net = build_net(table, model.flat)
        dtype, max_parts = self._net.values.dtype, MOST_PARTS * threads if threads > 1 else 1
        gradients = build_gradient_parts(table, model.flat, 1, max_parts)
        self._padded, self._flat = gradients.padded[0], gradients.flat[0]
        input_transform = build_input_transform(model.network.inputs, dtype)
        self._team = ThreadTeam(
            tuple(
                PackedArgs(
                    kernels.ThreadContext(
                        net=self._net,
                        heads=heads,
                        input_transform=input_transform,
                        work=build_workspace(table, model.flat, gradients, 0, 0),
                    )
                )
                for _ in range(threads)
            )
        )
        self._optimizer = build_optimizer(model.optimizer, model.flat)
        self._trainable = PackedArgs(Trainable(self._net, self._optimizer))
        self._sums = np.zeros((max_parts, kernels.SUMS))
        self._count = 0
        self._used_parts = 1
        self._greedy = np.zeros(0, np.int64)
        self._value = np.zeros(0, np.float32)
        self._all_rows = np.arange(0)
        self.refresh()

    def refresh(self) -> None:
        """See PQNEngine."""
        pack_net(self._net)

    def act(self, obs: Array, mask: Bools | None, epsilon: float, out: Ints) -> None:
        """See PQNEngine."""
        count, legal = len(obs), NO_MASK if mask is None else mask
        self._reserve(count)
        greedy = self._greedy[:count]
        self._evaluate(obs, legal, self._value[:count])
        mix_random_actions(greedy, self._explore.draw(count), epsilon, self._actions, legal, out)

    def values(self, obs: Array, mask: Bools | None, out: Floats) -> None:
        """See PQNEngine."""
        self._reserve(len(obs))
        self._evaluate(obs, NO_MASK if mask is None else mask, out)

    def compute(self, batch: Minibatch) -> None:
        """See PQNEngine; the gradient stays in parts until `step`."""
        size = batch.size
        bounds = self._bounds_of(size)
        self._used_parts = len(bounds) - 1
        args = kernels.GradientArgs(
            obs=batch.obs.reshape(len(batch.obs), -1),
            action=batch.action,
            returns=batch.returns,
            indices=self._all_of(size) if batch.indices is None else batch.indices,
            padded=self._padded,
            flat=self._flat,
            sums=self._sums,
        )
        self._team.run(kernels.add_gradient, args, bounds)
        self._count += size

    def step(self, lr: float) -> None:
        """See PQNEngine."""
        self._optimizer.settings[0] = lr
        parts = slice(self._used_parts)
        take_step(self._trainable, self._padded[parts], self._flat[parts])
        self._model.optimizer.check()

    def drain(self) -> dict[str, float]:
        """See PQNEngine."""
        if self._count == 0:
            return {}
        loss, q_value = (self._sums.sum(0) / self._count).tolist()
        self._sums.fill(0)
        self._count = 0
        return {"loss": loss, "q_value": q_value}

    def _evaluate(self, obs: Array, mask: Bools, value: Floats) -> None:
        """Write the best legal actions into `_greedy`, and their Q-values."""
        count = len(obs)
        args = kernels.GreedyArgs(obs.reshape(count, -1), mask, self._greedy[:count], value)
        self._team.run(kernels.greedy, args, self._bounds_of(count))

    def _reserve(self, count: int) -> None:
        if len(self._greedy) < count:
            self._greedy, self._value = np.zeros(count, np.int64), np.zeros(count, np.float32)

    def _all_of(self, count: int) -> Ints:
        """Rows 0, 1, 2..."""
        if len(self._all_rows) < count:
            self._all_rows = np.arange(count)
        return self._all_rows[:count]

    def _bounds_of(self, count: int) -> tuple[int, ...]:
        """Where the parts of `count` rows begin, and where the last one ends."""
        return bounds_of(count, self._team.size, TILE_ROWS, SMALLEST_PART)
