"""The sum tree of prioritized replay.

An array of 2 * L numbers: leaf s, the priority of slot s, is tree[L + s]; node i is the sum of its
children 2 * i and 2 * i + 1; tree[1] is the total.
"""

from __future__ import annotations

import numpy as np

from briskrl.compiler.jit import helper, kernel
from briskrl.core.types import Array
from briskrl.memory.kernels.ring import COUNT, HEAD, all_equal


@kernel
def rebuild(tree: Array) -> None:
    """Compute every inner node from the leaves."""
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
    """Set `number` consecutive leaves and the sums above them, each sum once."""
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
    """Update the tree after a write to each env of `ids`.

    The slot just written gets priority 0, because its n-step window is not complete. The transition
    whose window the write completed gets `priority`.
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
    """Sample slots in proportion to their priority, one from each of B equal shares of the total.

    The weight (size * P)**-beta over the largest of its batch is (smallest priority / own)**beta.
    A batch descends the tree level by level and without branches: the memory reads of its
    transitions overlap, and the processor has no random branches to predict.

    Args:
        tree: (2 * L,) sums.
        draws: (K, B) uniform in [0, 1), overwritten.
        updates: Batches to fill, at most K.
        beta: Strength of the importance correction.
        index: (K, B) slots, written.
        weight: (K, B), written.
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
                # Rounding may push a draw past the last leaf; a side of weight 0 is not taken.
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

    Non-finite errors and transitions that have been overwritten are skipped.
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
