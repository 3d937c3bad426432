"""Write to, sample from and gather out of a replay ring.

Shapes: N environments, S = rows * N slots, K batches of B transitions, F numbers of an observation,
A actions. Kernels that Python calls take the ring packed, and the arrays of a step or batch one by
one: these change from call to call, and a tuple of arrays is slower to unbox than its elements.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from briskrl.compiler.jit import helper, kernel
from briskrl.compiler.packed_args import unpack
from briskrl.core.types import Array

HEAD = 0
"""Row of a cursor: the ring row the env's next transition goes to."""
COUNT = 1
"""Row of a cursor: the transitions the env has ever written."""
TERMINATED = 1
"""Flag bit: the transition's episode terminated."""
TRUNCATED = 2
"""Flag bit: the transition's episode was cut off, for example by a time limit."""


class RingArrays(NamedTuple):
    """A replay ring as kernels see it; the arrays are those of `memory.ring.Ring`."""

    cursor: Any
    """(2, N) int64: next row and number of writes of every env."""
    n_step: int
    gamma: float
    obs: Any
    """(S, F)"""
    action: Any
    """(S, D)"""
    reward: Any
    """(S,)"""
    flags: Any
    """(S,) uint8"""
    mask: Any
    """(S, A), or (S, 0) without masks."""
    final_obs: Any
    """(S, F)"""
    final_mask: Any
    """(S, A) or (S, 0)"""


@kernel
def ids_are_distinct(ids: Array, seen: Array) -> bool:
    """Whether `ids` are different indices into `seen` (N,), all False before and after."""
    num_envs = seen.shape[0]
    good = True
    for j in range(ids.shape[0]):
        env = ids[j]
        if env < 0 or env >= num_envs or seen[env]:
            good = False
        else:
            seen[env] = True
    seen[:] = False
    return good


@helper
def copy_row(target: Array, to: int, source: Array, at: int) -> None:
    """target[to] = source[at], for rows of the target's width."""
    for d in range(target.shape[1]):
        target[to, d] = source[at, d]


@helper
def copy_block(target: Array, first: int, source: Array, rows: int) -> None:
    """target[first : first + rows] = source[:rows], as one run of numbers."""
    width = target.shape[1]
    flat_target, flat_source = target.reshape(-1), source.reshape(-1)
    for k in range(rows * width):
        flat_target[first * width + k] = flat_source[k]


@helper
def in_step(cursor: Array, ids: Array) -> bool:
    """Whether `ids` are all envs in order and all are about to write the same row."""
    num_envs = cursor.shape[1]
    different = ids.shape[0] - num_envs
    if different == 0:
        for j in range(num_envs):
            different |= ids[j] - j
            different |= cursor[HEAD, j] - cursor[HEAD, 0]
            different |= cursor[COUNT, j] - cursor[COUNT, 0]
    return bool(different == 0)


@kernel
def write_rows(
    packed_ring, ids, obs, action, mask, reward, terminated, truncated, final_obs, final_mask
):
    """Append one transition to each env of `ids`, row j of the arrays to env ids[j].

    Args:
        packed_ring: RingArrays, packed.
        ids: (M,) distinct envs.
        obs: (M, F), or more rows, like the other arrays.
        action: (M, D).
        mask: (M, A), or (0, 0) without masks.
        reward: (M,).
        terminated: (M,).
        truncated: (M,).
        final_obs: (M, F).
        final_mask: (M, A), or (0, 0) without masks.

    Returns:
        How many more transitions can be sampled.
    """
    ring = unpack(packed_ring)
    cursor, n_step = ring.cursor, ring.n_step
    num_envs = cursor.shape[1]
    num_rows = ring.reward.shape[0] // num_envs
    gained = 0
    if in_step(cursor, ids):
        # Every env writes the same row: whole blocks are copied at once.
        row = cursor[HEAD, 0]
        count = cursor[COUNT, 0]
        first = row * num_envs
        copy_block(ring.obs, first, obs, num_envs)
        copy_block(ring.action, first, action, num_envs)
        copy_block(ring.mask, first, mask, num_envs)
        for j in range(num_envs):
            ring.reward[first + j] = reward[j]
            ring.flags[first + j] = TERMINATED * terminated[j] | TRUNCATED * truncated[j]
        for j in range(num_envs):
            if ring.flags[first + j] == TRUNCATED:
                copy_row(ring.final_obs, first + j, final_obs, j)
                copy_row(ring.final_mask, first + j, final_mask, j)
        for j in range(num_envs):
            cursor[HEAD, j] = row + 1 if row + 1 < num_rows else 0
            cursor[COUNT, j] = count + 1
        return num_envs if n_step <= count < num_rows else 0
    for j in range(ids.shape[0]):
        env = ids[j]
        row = cursor[HEAD, env]
        count = cursor[COUNT, env]
        slot = row * num_envs + env
        copy_row(ring.obs, slot, obs, j)
        copy_row(ring.action, slot, action, j)
        copy_row(ring.mask, slot, mask, j)
        ring.reward[slot] = reward[j]
        flags = 0
        if terminated[j]:
            flags |= TERMINATED
        if truncated[j]:
            flags |= TRUNCATED
        ring.flags[slot] = flags
        if flags == TRUNCATED:
            copy_row(ring.final_obs, slot, final_obs, j)
            copy_row(ring.final_mask, slot, final_mask, j)
        if n_step <= count < num_rows:
            gained += 1
        cursor[HEAD, env] = row + 1 if row + 1 < num_rows else 0
        cursor[COUNT, env] = count + 1
    return gained


@helper
def sampleable(cursor: Array, env: int, num_rows: int, n_step: int) -> int:
    """How many transitions of one env can be sampled."""
    return int(max(0, min(cursor[COUNT, env], num_rows) - n_step))


@helper
def all_equal(values: Array) -> bool:
    """Whether every element equals the first."""
    same = True
    for i in range(values.shape[0]):
        same &= values[i] == values[0]
    return same


@kernel
def choose_uniform(packed_ring, draws, size, updates, cumulative, index, weight):
    """Turn draws in [0, 1) into slots; every transition that can be sampled is equally likely.

    Transitions are numbered env by env, oldest first. If all envs have equally many, a division
    finds the env; both ways give the same slots.

    Args:
        packed_ring: RingArrays, packed.
        draws: (K, B).
        size: Transitions that can be sampled.
        updates: Batches to fill, at most K.
        cumulative: (N,) int64, scratch: transitions of all envs up to and including each one.
        index: (K, B), written.
        weight: (K, B), written: ones.
    """
    ring = unpack(packed_ring)
    cursor, n_step = ring.cursor, ring.n_step
    num_envs = cursor.shape[1]
    num_rows = ring.reward.shape[0] // num_envs
    even = all_equal(cursor[COUNT])
    each = max(1, sampleable(cursor, 0, num_rows, n_step))
    if not even:
        total = 0
        for env in range(num_envs):
            total += sampleable(cursor, env, num_rows, n_step)
            cumulative[env] = total
    for k in range(updates):
        for b in range(index.shape[1]):
            number = min(int(draws[k, b] * size), size - 1)
            if even:
                env = number // each
                age = number - env * each
            else:
                env = int(np.searchsorted(cumulative, number, side="right"))
                age = number - cumulative[env] + sampleable(cursor, env, num_rows, n_step)
            oldest = cursor[HEAD, env] if cursor[COUNT, env] > num_rows else 0
            row = oldest + age
            if row >= num_rows:
                row -= num_rows
            index[k, b] = row * num_envs + env
            weight[k, b] = 1.0


@kernel
def gather(packed_ring, updates, index, obs, action, reward, next_obs, discount, next_mask):
    """See `gather_batches`; takes the ring packed."""
    gather_batches(
        unpack(packed_ring), updates, index, obs, action, reward, next_obs, discount, next_mask
    )


@helper
def gather_batches(ring, updates, index, obs, action, reward, next_obs, discount, next_mask):
    """Fill batches with the transitions in slots `index` (K, B): n-step returns and next_obs.

    A window ends after n steps or with its episode. Returns are summed in double precision.

    Args:
        ring: RingArrays.
        updates: Batches to fill, at most K.
        index: (K, B) slots of transitions that can be sampled.
        obs: (K, B, F), written like the following.
        action: (K, B, D).
        reward: (K, B) n-step returns.
        next_obs: (K, B, F) observations at the end of the windows.
        discount: (K, B) gamma**m of an m-step window, 0 where the episode terminated.
        next_mask: (K, B, A), or of width 0 without masks.
    """
    num_envs = ring.cursor.shape[1]
    num_slots = ring.reward.shape[0]
    for k in range(updates):
        for b in range(index.shape[1]):
            slot = index[k, b]
            last = slot
            end = slot
            total = 0.0
            scale = 1.0
            for _ in range(ring.n_step):
                last = end
                total += scale * ring.reward[last]
                scale *= ring.gamma
                end = last + num_envs
                if end >= num_slots:
                    end -= num_slots
                if ring.flags[last] != 0:
                    break
            flags = ring.flags[last]
            reward[k, b] = total
            discount[k, b] = 0.0 if flags & TERMINATED else scale
            for d in range(ring.obs.shape[1]):
                obs[k, b, d] = ring.obs[slot, d]
            for d in range(ring.action.shape[1]):
                action[k, b, d] = ring.action[slot, d]
            if flags == TRUNCATED:
                for d in range(ring.obs.shape[1]):
                    next_obs[k, b, d] = ring.final_obs[last, d]
                for d in range(ring.mask.shape[1]):
                    next_mask[k, b, d] = ring.final_mask[last, d]
            else:
                for d in range(ring.obs.shape[1]):
                    next_obs[k, b, d] = ring.obs[end, d]
                for d in range(ring.mask.shape[1]):
                    next_mask[k, b, d] = ring.mask[end, d]
