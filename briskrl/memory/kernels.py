"""Compiled loops of the memories: writing, choosing and gathering transitions, and the sum tree.

A slot is `row * num_envs + env`, so the next transition of the same env lies `num_envs` slots
further, around the ring. Ring arrays are flat over slots; observations, actions and masks are
(S, width), and a width of 0 stands for an array that this environment does not have.
"""

from __future__ import annotations

import numpy as np

from briskrl.core.types import Array
from briskrl.jit import helper, kernel

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


@kernel
def shuffle(order: Array, draws: Array) -> None:
    """Bring the first B numbers of `order` into a random order, by B uniform draws in [0, 1).

    Every order is as likely as any other (Fisher and Yates 1938), but for the draws' rounding.
    """
    for i in range(draws.shape[0] - 1, 0, -1):
        j = int(draws[i] * (i + 1))
        order[i], order[j] = order[j], order[i]


@kernel
def deal(
    draws: Array, places: Array, bounds: Array, owner: Array, ends: Array, order: Array
) -> None:
    """Deal the first B places out to P parts at random, every deal as likely as any other.

    Within a part places stay in their order: memory is faster to read in order.

    Args:
        draws: (B,) uniform in [0, 1).
        places: What is dealt; B of them or more, as of `owner` and `order`.
        bounds: (P + 1,) part p becomes order[bounds[p]..bounds[p + 1]-1].
        owner: Room for the part of every place.
        ends: (P,) room for how far parts have come.
        order: Written.
    """
    for p in range(ends.shape[0]):
        owner[bounds[p] : bounds[p + 1]] = p
        ends[p] = bounds[p]
    shuffle(owner, draws)
    for i in range(draws.shape[0]):
        order[ends[owner[i]]] = places[i]
        ends[owner[i]] += 1


@kernel
def rebuild(tree: Array) -> None:
    """Compute every inner node of a sum tree from its leaves, the second half of `tree`."""
    for node in range(tree.shape[0] // 2 - 1, 0, -1):
        tree[node] = tree[2 * node] + tree[2 * node + 1]


@helper
def set_leaf(tree: Array, slot: int, priority: float) -> None:
    """Set one leaf and the sums above it."""
    node = tree.shape[0] // 2 + slot
    tree[node] = priority
    node //= 2
    while node > 0:
        tree[node] = tree[2 * node] + tree[2 * node + 1]
        node //= 2


@helper
def set_leaves(tree: Array, slot: int, number: int, priority: float) -> None:
    """Set `number` neighbouring leaves and the sums above them, each sum once."""
    first = tree.shape[0] // 2 + slot
    last = first + number - 1
    for node in range(first, last + 1):
        tree[node] = priority
    while first > 1:
        first //= 2
        last //= 2
        for node in range(first, last + 1):
            tree[node] = tree[2 * node] + tree[2 * node + 1]


@kernel
def admit(
    tree: Array, cursor: Array, ids: Array, num_rows: int, n_step: int, priority: float
) -> None:
    """Bring the tree up to date with a write to each env of `ids`, to be called after it.

    The slot just written leaves the tree, because its window is open, and the transition whose
    window the write completed enters it with `priority`.
    """
    num_envs = cursor.shape[1]
    in_step = ids.shape[0] == num_envs and all_equal(cursor[COUNT])
    number = num_envs if in_step else 1
    for j in range(1 if in_step else ids.shape[0]):
        env = 0 if in_step else ids[j]
        row = cursor[HEAD, env] - 1
        if row < 0:
            row += num_rows
        complete = row - n_step
        if complete < 0:
            complete += num_rows
        if cursor[COUNT, env] > num_rows:
            set_leaves(tree, row * num_envs + env, number, 0.0)
        if cursor[COUNT, env] > n_step:
            set_leaves(tree, complete * num_envs + env, number, priority)


@kernel
def choose_prioritized(
    tree: Array, draws: Array, updates: int, beta: float, index: Array, weight: Array
) -> None:
    """Draw slots in proportion to their leaves, one from each of B equal shares of the total.

    The weight (size * P)**-beta over the largest of its batch is (smallest priority / own)**beta.
    `draws` is used up. A batch descends level by level and without branches: the memory reads of
    its transitions then overlap, and no random turn has to be guessed.
    """
    num_leaves = tree.shape[0] // 2
    batch = index.shape[1]
    for k in range(updates):
        for b in range(batch):
            draws[k, b] = (b + draws[k, b]) / batch * tree[1]
            index[k, b] = 1
        level = 1
        while level < num_leaves:
            level *= 2
            for b in range(batch):
                node = 2 * index[k, b]
                left = tree[node]
                # Rounding may push a target past the last leaf; a side without weight is not taken.
                right = (draws[k, b] >= left) & (tree[node + 1] > 0.0)
                draws[k, b] -= left if right else 0.0
                index[k, b] = node + right
        smallest = np.inf
        for b in range(batch):
            smallest = min(smallest, tree[index[k, b]])
        for b in range(batch):
            weight[k, b] = (smallest / tree[index[k, b]]) ** beta
            index[k, b] -= num_leaves


@kernel
def update_priorities(
    tree: Array,
    index: Array,
    errors: Array,
    updates: int,
    alpha: float,
    offset: float,
    largest: float,
) -> float:
    """Set leaves to (|error| + offset)**alpha; returns the largest priority so far.

    Non-finite errors and transitions that cannot be sampled any more are passed over.
    """
    num_leaves = tree.shape[0] // 2
    for k in range(updates):
        for b in range(index.shape[1]):
            error = np.float64(errors[k, b])
            slot = index[k, b]
            if np.isfinite(error) and 0 <= slot < num_leaves and tree[num_leaves + slot] > 0.0:
                priority = (abs(error) + offset) ** alpha
                set_leaf(tree, slot, priority)
                largest = max(largest, priority)
    return largest
