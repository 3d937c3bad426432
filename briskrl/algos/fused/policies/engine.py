"""Policy learning on the fused engine, on one thread or several."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from briskrl.algos.distributions import NO_MASK, Choices
from briskrl.algos.fused.policies import kernels
from briskrl.algos.policy_engine import METRICS, PolicyParts
from briskrl.core.types import Array, Bools, Decision, Floats, Minibatch
from briskrl.fused.kernels import TILE_ROWS, pack_net
from briskrl.fused.network import (
    build_net,
    build_optimiser,
    build_parts,
    build_reading,
    build_work,
)
from briskrl.fused.plan import Plan
from briskrl.fused.team import Team, share
from briskrl.held import Held
from briskrl.nets.bodies import MLPBody

SMALLEST_SHARE = 256
"""Rows per thread below which waking it takes longer than what it saves."""


class FusedPolicies:
    """See PolicyEngine; for networks that are made of dense layers alone and for choices.

    Threads take fixed parts of the rows, and their gradients are added in a fixed order: results
    depend on the number of threads, but not on who is faster.

    Args:
        parts: What to act and learn with.
        inputs: Numbers of one observation.
        threads: How many to use.
    """

    def __init__(self, parts: PolicyParts, inputs: int, threads: int = 1) -> None:
        assert isinstance(parts.distribution, Choices)
        self._parts = parts
        self._choices = parts.distribution
        plan = Plan(parts.flat, inputs)
        heads = _add_network(plan, parts)
        self._net = build_net(plan, parts.flat)
        self._gradients = build_parts(plan, parts.flat, 1, threads)
        reading = build_reading(parts.network.inputs, self._net.values.dtype)
        self._members = [
            Held(
                kernels.Member(
                    net=self._net,
                    heads=heads,
                    reading=reading,
                    work=build_work(plan, parts.flat, self._gradients, 0, member),
                    space=self._choices.space(),
                )
            )
            for member in range(threads)
        ]
        self._optimiser = build_optimiser(parts.guard, parts.flat)
        self._pupil = Held(kernels.Pupil(self._net, self._optimiser))
        self._team = Team(threads)
        config = parts.config
        self._settings = np.array(
            [config.clip, config.clip_value, config.entropy_coef, config.value_coef, 1.0]
        )
        self._sums = np.zeros((threads, len(METRICS)))
        self._totals = np.zeros(len(METRICS))
        self._count = self._total_count = 0
        self._used = 1
        self.refresh()

    def refresh(self) -> None:
        """See PolicyEngine."""
        pack_net(self._net)

    def act(self, obs: Array, mask: Bools | None, rng: np.random.Generator, out: Decision) -> None:
        """See PolicyEngine."""
        rows = obs.reshape(len(obs), -1)
        legal = NO_MASK if mask is None else mask
        draws = self._choices.draw(len(obs), rng)
        action = self._choices.columns(out.action)

        def part(member: int, first: int, end: int) -> None:
            kernels.act_by_chance(
                self._members[member],
                rows,
                legal,
                draws,
                first,
                end,
                action,
                out.log_prob,
            )

        self._share(len(obs), part)

    def values(self, obs: Array, out: Floats) -> None:
        """See PolicyEngine."""
        rows = obs.reshape(len(obs), -1)

        def part(member: int, first: int, end: int) -> None:
            kernels.foresee(self._members[member], rows, first, end, out)

        self._share(len(obs), part)

    def log_probs(self, obs: Array, action: Array, mask: Bools | None, out: Floats) -> None:
        """See PolicyEngine."""
        rows = obs.reshape(len(obs), -1)
        legal = NO_MASK if mask is None else mask
        taken = self._choices.columns(action)

        def part(member: int, first: int, end: int) -> None:
            kernels.recall(
                self._members[member],
                rows,
                legal,
                taken,
                first,
                end,
                out,
            )

        self._share(len(obs), part)

    def compute(self, batch: Minibatch, advantage: Floats) -> None:
        """See PolicyEngine; the gradient stays in the threads' parts until `step`."""
        size = len(advantage)
        self._settings[-1] = size
        self._sums.fill(0)
        steps = kernels.Steps(
            obs=batch.obs.reshape(size, -1),
            mask=NO_MASK if batch.mask is None else batch.mask,
            action=self._choices.columns(batch.action),
            anchor=batch.anchor,
            weight=batch.weight,
            value=batch.value,
            advantage=advantage,
            ret=batch.ret,
        )

        def part(member: int, first: int, end: int) -> None:
            kernels.add_gradient(
                self._members[member],
                steps,
                self._settings,
                first,
                end,
                self._sums[member],
            )

        self._used = self._share(size, part)
        self._totals += self._sums.sum(0)
        self._count = size
        self._total_count += size

    def divergence(self) -> float:
        """See PolicyEngine."""
        return float(self._sums[:, METRICS.index("approx_kl")].sum()) / self._count

    def step(self, lr: float) -> None:
        """See PolicyEngine."""
        self._optimiser.settings[0] = lr
        padded, flat = (array[0, : self._used] for array in self._gradients)
        kernels.take_step(self._pupil, padded, flat)
        self._parts.guard.check()

    def drain(self) -> dict[str, float]:
        """See PolicyEngine."""
        if self._total_count == 0:
            return {}
        means = dict(zip(METRICS, (self._totals / self._total_count).tolist(), strict=True))
        self._totals.fill(0)
        self._total_count = 0
        return means

    def _share(self, count: int, part: Callable[[int, int, int], None]) -> int:
        """Have `count` rows done by part(member, first, end); returns how many took part."""
        size = min(self._team.size, max(1, count // SMALLEST_SHARE))
        if size == 1:
            part(0, 0, count)
        else:
            self._team.run(
                lambda member: part(member, *share(count, size, member, TILE_ROWS)), size
            )
        return size


def _add_network(plan: Plan, parts: PolicyParts) -> kernels.Heads:
    """Add policy and value to a plan."""
    network, choices = parts.network, parts.distribution
    policy_body, value_body = network.policy_body, network.value_body
    assert isinstance(choices, Choices)
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
