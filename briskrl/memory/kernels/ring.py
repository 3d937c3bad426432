"""Write to, sample from and gather out of a replay ring."""

from __future__ import annotations

import numpy as np

from briskrl.compiler.jit import helper, kernel
from briskrl.core.types import Array

HEAD = 0
"""Row of a cursor: the ring row the env's next transition goes to."""
COUNT = 1
"""Row of a cursor: the transitions the env has ever written."""
TERMINATED = 1
"""Flag bit: the transition ended its episode for good."""
TRUNCATED = 2
"""Flag bit: the transition ran out of time."""


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
    cursor: Array,
    n_step: int,
    ids: Array,
    ring_obs: Array,
    ring_action: Array,
    ring_reward: Array,
    ring_flags: Array,
    ring_mask: Array,
    ring_final_obs: Array,
    ring_final_mask: Array,
    obs: Array,
    action: Array,
    mask: Array,
    reward: Array,
    terminated: Array,
    truncated: Array,
    final_obs: Array,
    final_mask: Array,
) -> int:
    """Append one transition to each env of `ids`; returns how many more can be sampled."""
    num_envs = cursor.shape[1]
    num_rows = ring_reward.shape[0] // num_envs
    gained = 0
    if in_step(cursor, ids):
        # Every env writes the same row: whole blocks are copied at once.
        row = cursor[HEAD, 0]
        count = cursor[COUNT, 0]
        first = row * num_envs
        copy_block(ring_obs, first, obs, num_envs)
        copy_block(ring_action, first, action, num_envs)
        copy_block(ring_mask, first, mask, num_envs)
        for j in range(num_envs):
            ring_reward[first + j] = reward[j]
            ring_flags[first + j] = TERMINATED * terminated[j] | TRUNCATED * truncated[j]
        for j in range(num_envs):
            if ring_flags[first + j] == TRUNCATED:
                copy_row(ring_final_obs, first + j, final_obs, j)
                copy_row(ring_final_mask, first + j, final_mask, j)
        for j in range(num_envs):
            cursor[HEAD, j] = row + 1 if row + 1 < num_rows else 0
            cursor[COUNT, j] = count + 1
        return num_envs if n_step <= count < num_rows else 0
    for j in range(ids.shape[0]):
        env = ids[j]
        row = cursor[HEAD, env]
        count = cursor[COUNT, env]
        slot = row * num_envs + env
        copy_row(ring_obs, slot, obs, j)
        copy_row(ring_action, slot, action, j)
        copy_row(ring_mask, slot, mask, j)
        ring_reward[slot] = reward[j]
        flags = 0
        if terminated[j]:
            flags |= TERMINATED
        if truncated[j]:
            flags |= TRUNCATED
        ring_flags[slot] = flags
        if flags == TRUNCATED:
            copy_row(ring_final_obs, slot, final_obs, j)
            copy_row(ring_final_mask, slot, final_mask, j)
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
def choose_uniform(
    draws: Array,
    cursor: Array,
    num_rows: int,
    n_step: int,
    size: int,
    updates: int,
    upto: Array,
    index: Array,
    weight: Array,
) -> None:
    """Turn draws in [0, 1) into slots, each sampleable transition equally likely.

    Transitions are numbered env by env, oldest first. `upto` (N,) is scratch: how many transitions
    the envs up to and including each one have. Envs with equal counts need a division alone; both
    ways give the same slots.
    """
    num_envs = cursor.shape[1]
    even = all_equal(cursor[COUNT])
    each = max(1, sampleable(cursor, 0, num_rows, n_step))
    if not even:
        total = 0
        for env in range(num_envs):
            total += sampleable(cursor, env, num_rows, n_step)
            upto[env] = total
    for k in range(updates):
        for b in range(index.shape[1]):
            number = min(int(draws[k, b] * size), size - 1)
            if even:
                env = number // each
                age = number - env * each
            else:
                env = int(np.searchsorted(upto, number, side="right"))
                age = number - upto[env] + sampleable(cursor, env, num_rows, n_step)
            oldest = cursor[HEAD, env] if cursor[COUNT, env] > num_rows else 0
            row = oldest + age
            if row >= num_rows:
                row -= num_rows
            index[k, b] = row * num_envs + env
            weight[k, b] = 1.0


@kernel
def gather(
    num_envs: int,
    n_step: int,
    gamma: float,
    updates: int,
    index: Array,
    ring_obs: Array,
    ring_action: Array,
    ring_reward: Array,
    ring_flags: Array,
    ring_mask: Array,
    ring_final_obs: Array,
    ring_final_mask: Array,
    obs: Array,
    action: Array,
    reward: Array,
    next_obs: Array,
    discount: Array,
    next_mask: Array,
) -> None:
    """Fill the transitions that `index` (K, B) names: n-step returns and where their windows end.

    A window ends after n steps or with its episode. Sums are kept in double precision.
    """
    num_slots = ring_reward.shape[0]
    for k in range(updates):
        for b in range(index.shape[1]):
            slot = index[k, b]
            last = slot
            end = slot
            total = 0.0
            scale = 1.0
            for _ in range(n_step):
                last = end
                total += scale * ring_reward[last]
                scale *= gamma
                end = last + num_envs
                if end >= num_slots:
                    end -= num_slots
                if ring_flags[last] != 0:
                    break
            flags = ring_flags[last]
            reward[k, b] = total
            discount[k, b] = 0.0 if flags & TERMINATED else scale
            for d in range(ring_obs.shape[1]):
                obs[k, b, d] = ring_obs[slot, d]
            for d in range(ring_action.shape[1]):
                action[k, b, d] = ring_action[slot, d]
            if flags == TRUNCATED:
                for d in range(ring_obs.shape[1]):
                    next_obs[k, b, d] = ring_final_obs[last, d]
                for d in range(ring_mask.shape[1]):
                    next_mask[k, b, d] = ring_final_mask[last, d]
            else:
                for d in range(ring_obs.shape[1]):
                    next_obs[k, b, d] = ring_obs[end, d]
                for d in range(ring_mask.shape[1]):
                    next_mask[k, b, d] = ring_mask[end, d]
