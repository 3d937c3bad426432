"""PPO on the fused engine, on one thread or several.

The loss is in `kernels/loss.py`, the other kernels in `kernels/update.py`.
"""

from __future__ import annotations

import numpy as np

from briskrl.algos.distributions import NO_MASK, Categorical
from briskrl.algos.ppo.engine import METRICS, PPOModel
from briskrl.algos.ppo.kernels import update as kernels
from briskrl.algos.ppo.kernels.loss import MinibatchTile
from briskrl.compiler.packed_args import PackedArgs
from briskrl.core.types import Array, Bools, Decision, Floats, Ints, Minibatch, aligned_zeros
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
from briskrl.nets.bodies import MLPBody
from briskrl.parallel.thread_team import MOST_PARTS, ThreadTeam, bounds_of

SMALLEST_PART = 128
"""Fewest rows of a part: adding up the gradients of smaller ones costs more than it saves."""


class FusedPPOEngine:
    """A PPOEngine for networks of dense layers with categorical actions, compiled as a whole.

    Rows are computed in fixed parts, whose gradients are added in a fixed order: results depend on
    the number of threads, but not on which thread computes which part.

    Args:
        model: Network and optimizer.
        inputs: Numbers of one observation.
        threads: Threads to use.
    """

    def __init__(self, model: PPOModel, inputs: int, threads: int = 1) -> None:
        assert isinstance(model.distribution, Categorical)
        self._model = model
        self._distribution = model.distribution
        table = LayerTable(model.flat, inputs)
        heads = _add_network(table, model)
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
                        buffers=self._distribution.new_buffers(),
                        tile=_allocate_tile(self._distribution, dtype),
                    )
                )
                for _ in range(threads)
            )
        )
        self._optimizer = build_optimizer(model.optimizer, model.flat)
        self._trainable = PackedArgs(kernels.Trainable(self._net, self._optimizer))
        config = model.config
        self._settings = np.array(
            [config.clip, config.clip_value, config.entropy_coef, config.value_coef, 1.0]
        )
        self._sums = np.zeros((max_parts, len(METRICS)))
        self._totals = np.zeros(len(METRICS))
        self._count = self._total_count = 0
        self._used_parts = 1
        self._collected = False
        self._all_rows = np.arange(0)
        self.refresh()

    def refresh(self) -> None:
        """See PPOEngine."""
        pack_net(self._net)

    def act(self, obs: Array, mask: Bools | None, rng: np.random.Generator, out: Decision) -> None:
        """See PPOEngine."""
        args = kernels.ActArgs(
            obs=obs.reshape(len(obs), -1),
            mask=NO_MASK if mask is None else mask,
            draws=self._distribution.draw(len(obs), rng),
            action=self._distribution.columns(out.action),
            log_prob=out.log_prob,
        )
        self._team.run(kernels.act, args, self._bounds_of(len(obs)))

    def values(self, obs: Array, out: Floats) -> None:
        """See PPOEngine."""
        args = kernels.ValueArgs(obs.reshape(len(obs), -1), out)
        self._team.run(kernels.values, args, self._bounds_of(len(obs)))

    def log_probs(self, obs: Array, action: Array, mask: Bools | None, out: Floats) -> None:
        """See PPOEngine."""
        args = kernels.LogProbArgs(
            obs=obs.reshape(len(obs), -1),
            mask=NO_MASK if mask is None else mask,
            action=self._distribution.columns(action),
            log_prob=out,
        )
        self._team.run(kernels.action_log_probs, args, self._bounds_of(len(obs)))

    def compute(self, batch: Minibatch, advantage: Floats) -> None:
        """See PPOEngine; the gradient stays in parts until it is collected, or `step`."""
        size = len(advantage)
        bounds = self._bounds_of(size)
        self._used_parts, self._count = len(bounds) - 1, size
        self._settings[-1] = size
        self._collected = False
        self._sums.fill(0)
        args = kernels.GradientArgs(
            obs=batch.obs.reshape(len(batch.obs), -1),
            mask=NO_MASK if batch.mask is None else batch.mask,
            action=self._distribution.columns(batch.action),
            old_log_prob=batch.old_log_prob,
            weight=batch.weight,
            value=batch.value,
            returns=batch.returns,
            indices=self._all_of(size) if batch.indices is None else batch.indices,
            advantage=advantage,
            settings=self._settings,
            padded=self._padded,
            flat=self._flat,
            sums=self._sums,
        )
        self._team.run(kernels.add_gradient, args, bounds)
        self._totals += self._sums.sum(0)
        self._total_count += size

    def collect_gradient(self) -> None:
        """See PPOEngine."""
        parts = slice(self._used_parts)
        kernels.add_up_parts(self._trainable, self._padded[parts], self._flat[parts])
        self._collected = True

    def divergence(self) -> float:
        """See PPOEngine."""
        return float(self._sums[:, METRICS.index("approx_kl")].sum()) / self._count

    def step(self, lr: float) -> None:
        """See PPOEngine."""
        self._optimizer.settings[0] = lr
        if self._collected:
            kernels.take_collected_step(self._trainable)
        else:
            parts = slice(self._used_parts)
            kernels.take_step(self._trainable, self._padded[parts], self._flat[parts])
        self._model.optimizer.check()

    def drain(self) -> dict[str, float]:
        """See PPOEngine."""
        if self._total_count == 0:
            return {}
        means = dict(zip(METRICS, (self._totals / self._total_count).tolist(), strict=True))
        self._totals.fill(0)
        self._total_count = 0
        return means

    def _all_of(self, count: int) -> Ints:
        """Rows 0, 1, 2..."""
        if len(self._all_rows) < count:
            self._all_rows = np.arange(count)
        return self._all_rows[:count]

    def _bounds_of(self, count: int) -> tuple[int, ...]:
        """Where the parts of `count` rows begin, and where the last one ends."""
        return bounds_of(count, self._team.size, TILE_ROWS, SMALLEST_PART)


def _allocate_tile(actions: Categorical, dtype: np.dtype[np.floating]) -> MinibatchTile:
    """Room for the steps of one tile."""
    old_log_prob, weight, old_value, advantage, returns = aligned_zeros((5, TILE_ROWS), dtype)
    return MinibatchTile(
        mask=np.zeros((TILE_ROWS, actions.outputs), np.bool_),
        action=np.zeros((TILE_ROWS, len(actions.sizes)), np.int64),
        old_log_prob=old_log_prob,
        weight=weight,
        old_value=old_value,
        advantage=advantage,
        returns=returns,
    )


def _add_network(table: LayerTable, model: PPOModel) -> kernels.ActorCriticHeads:
    """Add the layers of policy and value to a table."""
    network, actions = model.network, model.distribution
    policy_body, value_body = network.policy_body, network.value_body
    assert isinstance(actions, Categorical)
    assert isinstance(policy_body, MLPBody)
    assert isinstance(value_body, MLPBody)
    features = table.body(policy_body, table.obs)
    trunk = len(table)
    policy = table.dense(network.policy_head, features)
    policy_end = len(table)
    value_features = features if network.shared else table.body(value_body, table.obs)
    value = table.dense(network.value_head, value_features)
    layers = table.table()
    shared = layers[:trunk] if network.shared else layers[:0]
    return kernels.ActorCriticHeads(
        policy_at=policy.offset,
        policy_row=policy.stride,
        value_at=value.offset,
        value_row=value.stride,
        policy_layers=layers[:policy_end],
        value_layers=np.concatenate([shared, layers[policy_end:]]),
        ends=actions.ends,
    )
