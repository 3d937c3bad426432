"""Policy learning on the fused engine, on one thread or several."""

from __future__ import annotations

import numpy as np

from briskrl.algos.distributions.base import NO_MASK
from briskrl.algos.distributions.categorical import Categorical
from briskrl.algos.ppo.engine import METRICS, PPOModel
from briskrl.algos.ppo.kernels import update as kernels
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
"""Rows of a part below which it takes too long to add its gradient to the others'."""


class FusedPPOEngine:
    """See PolicyEngine; for networks that are made of dense layers alone and for choices.

    Rows are computed in fixed parts, whose gradients are added in a fixed order: results depend on
    the number of threads, but not on who computes which part.

    Args:
        parts: What to act and learn with.
        inputs: Numbers of one observation.
        threads: How many to use.
    """

    def __init__(self, parts: PPOModel, inputs: int, threads: int = 1) -> None:
        assert isinstance(parts.distribution, Categorical)
        self._parts = parts
        self._choices = parts.distribution
        plan = LayerTable(parts.flat, inputs)
        heads = _add_network(plan, parts)
        self._net = build_net(plan, parts.flat)
        dtype, most = self._net.values.dtype, MOST_PARTS * threads if threads > 1 else 1
        gradients = build_gradient_parts(plan, parts.flat, 1, most)
        self._padded, self._flat = gradients.padded[0], gradients.flat[0]
        reading = build_input_transform(parts.network.inputs, dtype)
        self._team = ThreadTeam(
            tuple(
                PackedArgs(
                    kernels.ThreadContext(
                        net=self._net,
                        heads=heads,
                        reading=reading,
                        work=build_workspace(plan, parts.flat, gradients, 0, 0),
                        space=self._choices.space(),
                        tile=_known_of_a_tile(self._choices, dtype),
                    )
                )
                for _ in range(threads)
            )
        )
        self._optimizer = build_optimizer(parts.guard, parts.flat)
        self._pupil = PackedArgs(kernels.Trainable(self._net, self._optimizer))
        config = parts.config
        self._settings = np.array(
            [config.clip, config.clip_value, config.entropy_coef, config.value_coef, 1.0]
        )
        self._sums = np.zeros((most, len(METRICS)))
        self._totals = np.zeros(len(METRICS))
        self._count = self._total_count = 0
        self._used = 1
        self._in_order = np.arange(0)
        self.refresh()

    def refresh(self) -> None:
        """See PolicyEngine."""
        pack_net(self._net)

    def act(self, obs: Array, mask: Bools | None, rng: np.random.Generator, out: Decision) -> None:
        """See PolicyEngine."""
        acting = kernels.ActArgs(
            obs=obs.reshape(len(obs), -1),
            mask=NO_MASK if mask is None else mask,
            draws=self._choices.draw(len(obs), rng),
            action=self._choices.columns(out.action),
            log_prob=out.log_prob,
        )
        self._team.run(kernels.act, acting, self._bounds_of(len(obs)))

    def values(self, obs: Array, out: Floats) -> None:
        """See PolicyEngine."""
        foreseeing = kernels.ValueArgs(obs.reshape(len(obs), -1), out)
        self._team.run(kernels.values, foreseeing, self._bounds_of(len(obs)))

    def log_probs(self, obs: Array, action: Array, mask: Bools | None, out: Floats) -> None:
        """See PolicyEngine."""
        recalling = kernels.LogProbArgs(
            obs=obs.reshape(len(obs), -1),
            mask=NO_MASK if mask is None else mask,
            action=self._choices.columns(action),
            log_prob=out,
        )
        self._team.run(kernels.action_log_probs, recalling, self._bounds_of(len(obs)))

    def compute(self, batch: Minibatch, advantage: Floats) -> None:
        """See PolicyEngine; the gradient stays in parts until `step`."""
        size = len(advantage)
        bounds = self._bounds_of(size)
        self._used, self._count = len(bounds) - 1, size
        self._settings[-1] = size
        self._sums.fill(0)
        learning = kernels.GradientArgs(
            obs=batch.obs.reshape(len(batch.obs), -1),
            mask=NO_MASK if batch.mask is None else batch.mask,
            action=self._choices.columns(batch.action),
            old_log_prob=batch.old_log_prob,
            weight=batch.weight,
            value=batch.value,
            returns=batch.returns,
            chosen=self._all_of(size) if batch.indices is None else batch.indices,
            advantage=advantage,
            settings=self._settings,
            padded=self._padded,
            flat=self._flat,
            sums=self._sums,
        )
        self._team.run(kernels.add_gradient, learning, bounds)
        self._totals += self._sums.sum(0)
        self._total_count += size

    def divergence(self) -> float:
        """See PolicyEngine."""
        return float(self._sums[:, METRICS.index("approx_kl")].sum()) / self._count

    def step(self, lr: float) -> None:
        """See PolicyEngine."""
        self._optimizer.settings[0] = lr
        kernels.take_step(self._pupil, self._padded[: self._used], self._flat[: self._used])
        self._parts.guard.check()

    def drain(self) -> dict[str, float]:
        """See PolicyEngine."""
        if self._total_count == 0:
            return {}
        means = dict(zip(METRICS, (self._totals / self._total_count).tolist(), strict=True))
        self._totals.fill(0)
        self._total_count = 0
        return means

    def _all_of(self, count: int) -> Ints:
        """Rows 0, 1, 2..."""
        if len(self._in_order) < count:
            self._in_order = np.arange(count)
        return self._in_order[:count]

    def _bounds_of(self, count: int) -> tuple[int, ...]:
        """How so many rows are shared."""
        return bounds_of(count, self._team.size, TILE_ROWS, SMALLEST_PART)


def _known_of_a_tile(choices: Categorical, dtype: np.dtype[np.floating]) -> kernels.MinibatchTile:
    """Where a thread gathers what is known of the steps of a tile."""
    old_log_prob, weight, value, returns = aligned_zeros((4, TILE_ROWS), dtype)
    return kernels.MinibatchTile(
        mask=np.zeros((TILE_ROWS, choices.outputs), np.bool_),
        action=np.zeros((TILE_ROWS, len(choices.sizes)), np.int64),
        old_log_prob=old_log_prob,
        weight=weight,
        value=value,
        returns=returns,
    )


def _add_network(plan: LayerTable, parts: PPOModel) -> kernels.Heads:
    """Add policy and value to a plan."""
    network, choices = parts.network, parts.distribution
    policy_body, value_body = network.policy_body, network.value_body
    assert isinstance(choices, Categorical)
    assert isinstance(policy_body, MLPBody)
    assert isinstance(value_body, MLPBody)
    features = plan.body(policy_body, plan.obs)
    trunk = len(plan)
    policy = plan.dense(network.policy_head, features)
    policy_end = len(plan)
    value_features = features if network.shared else plan.body(value_body, plan.obs)
    value = plan.dense(network.value_head, value_features)
    table = plan.table()
    shared = table[:trunk] if network.shared else table[:0]
    return kernels.Heads(
        policy_at=policy.at,
        policy_row=policy.row,
        value_at=value.at,
        value_row=value.row,
        policy_layers=table[:policy_end],
        value_layers=np.concatenate([shared, table[policy_end:]]),
        ends=choices.ends,
    )
