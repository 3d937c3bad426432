"""Greedy actions of a Q-network."""

from __future__ import annotations

from typing import Any, NamedTuple

from briskrl.algos.dqn.kernels.exploration import mix_random_actions
from briskrl.algos.dqn.kernels.heads import best_action, combine_dueling, outputs_at
from briskrl.compiler.jit import kernel
from briskrl.compiler.math import flush_denormals, restore_denormals
from briskrl.compiler.packed_args import unpack
from briskrl.fused.kernels.layers import forward, load_rows
from briskrl.fused.kernels.structs import TILE_ROWS


class Actor(NamedTuple):
    """Who acts."""

    net: Any
    heads: Any
    reading: Any
    work: Any


@kernel
def act_greedily(actor, obs, mask, draws, epsilon, greedy, out):
    """Write actions (N,): greedy ones for observations (N, F), random ones for a share epsilon."""
    net, heads, reading, work = unpack(actor)
    control = flush_denormals()
    for first in range(0, obs.shape[0], TILE_ROWS):
        rows = min(TILE_ROWS, obs.shape[0] - first)
        load_rows(reading, obs, first, rows, work)
        forward(net, net.layers, work, rows)
        combine_dueling(heads, work.out, rows)
        for r in range(rows):
            greedy[first + r] = best_action(heads, work.out, outputs_at(heads, r), mask, first + r)
    mix_random_actions(greedy, draws, epsilon, heads.actions, mask, out)
    restore_denormals(control)
