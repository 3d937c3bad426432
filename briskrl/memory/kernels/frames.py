"""Stacks of frames from a ring that holds every frame once."""

from briskrl.compiler.jit import helper, kernel
from briskrl.compiler.packed_args import unpack
from briskrl.memory.kernels.ring import COUNT, HEAD, TRUNCATED


@helper
def earlier(ring, slot):
    """The slot of the frame before that of `slot`; -1 if the episode or the ring begins there."""
    num_envs = ring.cursor.shape[1]
    num_slots = ring.reward.shape[0]
    env = slot % num_envs
    num_rows = num_slots // num_envs
    oldest = ring.cursor[HEAD, env] if ring.cursor[COUNT, env] >= num_rows else 0
    if slot // num_envs == oldest:
        return -1
    before = slot - num_envs if slot >= num_envs else slot - num_envs + num_slots
    return -1 if ring.flags[before] != 0 else before


@helper
def fill_back(ring, slot, count, out):
    """Write the `count` frames up to that of `slot`, oldest first; the first one is repeated."""
    width = ring.obs.shape[1]
    for place in range(count - 1, -1, -1):
        for d in range(width):
            out[place * width + d] = ring.obs[slot, d]
        before = earlier(ring, slot)
        if before >= 0:
            slot = before


@kernel
def fill_stacks(packed_ring, updates, index, stack, obs, next_obs):
    """Write the observations of the transitions in slots `index` and at the end of their windows.

    Args:
        packed_ring: RingArrays, packed; its observations are single frames.
        updates: Batches to fill, at most K.
        index: (K, B) slots of transitions that can be sampled.
        stack: Frames of an observation.
        obs: (K, B, stack * F), written like the next.
        next_obs: (K, B, stack * F).
    """
    ring = unpack(packed_ring)
    num_envs = ring.cursor.shape[1]
    num_slots = ring.reward.shape[0]
    width = ring.obs.shape[1]
    for k in range(updates):
        for b in range(index.shape[1]):
            slot = index[k, b]
            fill_back(ring, slot, stack, obs[k, b])
            last = slot
            end = slot
            for _ in range(ring.n_step):
                last = end
                end = last + num_envs
                if end >= num_slots:
                    end -= num_slots
                if ring.flags[last] != 0:
                    break
            if ring.flags[last] == TRUNCATED:
                fill_back(ring, last, stack - 1, next_obs[k, b])
                for d in range(width):
                    next_obs[k, b, (stack - 1) * width + d] = ring.final_obs[last, d]
            else:
                fill_back(ring, end, stack, next_obs[k, b])
