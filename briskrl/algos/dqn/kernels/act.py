"""Epsilon-greedy actions of a Q-network."""

from __future__ import annotations

from typing import Any, NamedTuple

from briskrl.algos.dqn.kernels.heads import best_action, combine_dueling, outputs_at
from briskrl.compiler.jit import kernel
from briskrl.compiler.math import flush_denormals, restore_denormals
from briskrl.compiler.packed_args import unpack
from briskrl.core.types import Array
from briskrl.fused.kernels.layers import forward, load_rows
from briskrl.fused.kernels.structs import TILE_ROWS


class Actor(NamedTuple):
    """A Q-network that acts; passed packed."""

    net: Any
    heads: Any
    """QHeads."""
    input_transform: Any
    """InputTransform of observations."""
    work: Any
    """Workspace."""


@kernel
def act_epsilon_greedy(actor, obs, mask, draws, epsilon, greedy, out):
    """Write epsilon-greedy actions (N,) for observations (N, F).

    Args:
        actor: Actor, packed.
        obs: (N, F).
        mask: (N, A) bool, or (0, 0) if every action is legal.
        draws: (2, N), see `mix_random_actions`.
        epsilon: Probability of a random action.
        greedy: (N,) int64, scratch.
        out: (N,) int64, written.
    """
    net, heads, input_transform, work = unpack(actor)
    control = flush_denormals()
    for first in range(0, obs.shape[0], TILE_ROWS):
        rows = min(TILE_ROWS, obs.shape[0] - first)
        load_rows(input_transform, obs, first, rows, work)
        forward(net, net.layers, work, rows)
        combine_dueling(heads, work.out, rows)
        for r in range(rows):
            greedy[first + r] = best_action(heads, work.out, outputs_at(heads, r), mask, first + r)
    mix_random_actions(greedy, draws, epsilon, heads.actions, mask, out)
    restore_denormals(control)


@kernel
def mix_random_actions(
    greedy: Array, draws: Array, epsilon: float, num_actions: int, mask: Array, out: Array
) -> None:
    """Replace greedy actions by random legal ones with probability epsilon.

    Args:
        greedy: (N,) int64.
        draws: (2, N) uniform in [0, 1): whether to explore, and with which action.
        epsilon: Probability of a random action.
        num_actions: A.
        mask: (N, A) bool, or (0, 0) if every action is legal.
        out: (N,) int64, written.
    """
    masked = mask.shape[0] > 0
    for i in range(greedy.shape[0]):
        out[i] = greedy[i]
        if draws[0, i] >= epsilon:
            continue
        legal = 0
        if masked:
            for action in range(num_actions):
                legal += mask[i, action]
        if legal == 0:
            out[i] = int(draws[1, i] * num_actions)
            continue
        rank = int(draws[1, i] * legal)
        for action in range(num_actions):
            if mask[i, action]:
                if rank == 0:
                    out[i] = action
                    break
                rank -= 1
