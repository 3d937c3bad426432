"""Drawing one batch after the other from a prioritized memory, within compiled loops."""

from __future__ import annotations

from typing import Any, NamedTuple

from briskrl.compiler.jit import helper
from briskrl.core.types import Array
from briskrl.memory.kernels.ring import gather
from briskrl.memory.kernels.sum_tree import choose_prioritized, update_priorities


class PrioritizedSampler(NamedTuple):
    """A prioritized memory, and the batches (K, B) that it fills, as kernels see them."""

    tree: Any
    draws: Any
    """(K, B), used up"""
    beta: float
    alpha: float
    offset: float
    largest: Any
    """(1,) float64: the largest priority so far, written."""
    num_envs: int
    n_step: int
    gamma: float
    ring: Any
    """obs, action, reward, flags, mask, final_obs and final_mask of the ring."""
    index: Any
    weight: Any
    obs: Any
    action: Any
    reward: Any
    next_obs: Any
    discount: Any
    next_mask: Any


@helper
def draw_batch(source: PrioritizedSampler, k: int) -> None:
    """Draw and fill batch k, by the priorities as they are now."""
    one = slice(k, k + 1)
    choose_prioritized(
        source.tree, source.draws[one], 1, source.beta, source.index[one], source.weight[one]
    )
    obs, action, reward, flags, mask, final_obs, final_mask = source.ring
    gather(
        source.num_envs,
        source.n_step,
        source.gamma,
        1,
        source.index[one],
        obs,
        action,
        reward,
        flags,
        mask,
        final_obs,
        final_mask,
        source.obs[one],
        source.action[one],
        source.reward[one],
        source.next_obs[one],
        source.discount[one],
        source.next_mask[one],
    )


@helper
def feed_back(source: PrioritizedSampler, k: int, errors: Array) -> None:
    """Set the priorities of batch k from its errors, row k of (K, B)."""
    one = slice(k, k + 1)
    source.largest[0] = update_priorities(
        source.tree,
        source.index[one],
        errors[one],
        1,
        source.alpha,
        source.offset,
        source.largest[0],
    )
