"""Sampling one batch after another from prioritized replay, within compiled loops."""

from __future__ import annotations

from typing import Any, NamedTuple

from briskrl.compiler.jit import helper
from briskrl.memory.kernels.ring import gather_batches
from briskrl.memory.kernels.sum_tree import choose_prioritized, update_priorities


class PrioritizedSampler(NamedTuple):
    """A prioritized replay buffer, and the batches (K, B) that it fills, as kernels see them."""

    tree: Any
    """The sum tree of priorities."""
    draws: Any
    """(K, B) uniform in [0, 1), overwritten."""
    beta: float
    alpha: float
    offset: float
    """Added to every error."""
    largest: Any
    """(1,) float64: the largest priority so far, written."""
    ring: Any
    """RingArrays."""
    index: Any
    """(K, B); this and the following are the fields of a Batch."""
    weight: Any
    obs: Any
    action: Any
    reward: Any
    next_obs: Any
    discount: Any
    next_mask: Any


@helper
def sample_batch(sampler, k):
    """Sample and fill batch k by the present priorities."""
    one = slice(k, k + 1)
    choose_prioritized(
        sampler.tree, sampler.draws[one], 1, sampler.beta, sampler.index[one], sampler.weight[one]
    )
    gather_batches(
        sampler.ring,
        1,
        sampler.index[one],
        sampler.obs[one],
        sampler.action[one],
        sampler.reward[one],
        sampler.next_obs[one],
        sampler.discount[one],
        sampler.next_mask[one],
    )


@helper
def update_batch_priorities(sampler, k, errors):
    """Set the priorities of batch k from its TD errors, row k of (K, B)."""
    one = slice(k, k + 1)
    sampler.largest[0] = update_priorities(
        sampler.tree,
        sampler.index[one],
        errors[one],
        1,
        sampler.alpha,
        sampler.offset,
        sampler.largest[0],
    )
