"""All due updates of a Q-network in one call; the update itself is in `td_update.py`."""

from __future__ import annotations

from typing import Any, NamedTuple

from briskrl.algos.dqn.kernels.paired_threads import (
    ROUND,
    STEPS,
    main_workspace,
    paired_gradient,
    try_pair,
)
from briskrl.algos.dqn.kernels.td_update import (
    DOUBLE,
    NUM_UPDATES,
    PRECOMPUTED,
    SPLIT_FROM,
    TARGET_PERIOD,
    UPDATES_DONE,
    apply_parts,
    compute_targets,
    half_grad,
    mean_loss,
    rows_grad,
    target_forward,
    use_noise,
)
from briskrl.compiler.jit import helper, kernel
from briskrl.compiler.math import flush_denormals, restore_denormals
from briskrl.compiler.packed_args import unpack
from briskrl.fused.kernels.packing import move_numbers, pack
from briskrl.fused.kernels.structs import TILE_ROWS
from briskrl.memory.kernels.prioritized_sampling import sample_batch, update_batch_priorities


class Task(NamedTuple):
    """K updates of a batch, and what computing them needs; passed packed."""

    context: Any
    """UpdateContext."""
    replica: Any
    """The UpdateContext with the helper thread's network and optimizer."""
    workspaces: Any
    """One Workspace for whole batches; if batches may be split, also those of `main_workspace` and
    `helper_workspace`."""
    spare: Any
    """A Workspace for `precompute_targets`, which runs beside other updates."""


@kernel
def precompute_targets(task, updates):
    """Compute TD targets for the next `updates` batches, as far as the target network decides them.

    Args:
        task: Packed Task. No other thread may use its context or change the target network.
        updates: How many of its updates come before the next refresh of the target network.
    """
    context, _, _, work = unpack(task)
    control = flush_denormals()
    size = context.batch.obs.shape[1]
    for k in range(updates):
        for first in range(0, size, TILE_ROWS):
            rows = min(TILE_ROWS, size - first)
            if context.params[DOUBLE] != 0:
                target_forward(context, work, k, first, rows)
            else:
                compute_targets(context, work, k, first, rows)
    context.params[PRECOMPUTED] = updates
    restore_denormals(control)


@helper
def batch_gradient(task, k):
    """Compute update k's gradient, as a whole or in two halves, with a helper thread if ready.

    The result does not depend on which thread computes the halves.

    Returns:
        The gradient buffers, and which set of them was used.
    """
    context, replica, workspaces, _ = unpack(task)
    mailbox, size = context.mailbox, context.batch.obs.shape[1]
    splits = len(workspaces) > 1 and k >= context.params[SPLIT_FROM]
    if splits and try_pair(context, replica):
        return context.half_gradients, paired_gradient(context, workspaces, k)
    if size <= TILE_ROWS or not splits:
        rows_grad(context, workspaces[0], k, 0, size, size // 2 if splits else 0)
        return context.full_gradient, 0
    side = (mailbox[ROUND] + 1) % 2
    for half in range(2):
        half_grad(context, workspaces[main_workspace(side, half)], k, half)
    return context.half_gradients, side


@helper
def do_update(task, k):
    """Do update k of a packed task (unpacked, its arrays would not fit into registers)."""
    context = unpack(task).context
    use_noise(context.online, context.noise[k, 0])
    use_noise(context.target, context.noise[k, 1])
    gradients, side = batch_gradient(task, k)
    online, target = context.online, context.target
    done, period = context.params[UPDATES_DONE], context.params[TARGET_PERIOD]
    apply_parts(context, gradients, side)
    context.mailbox[STEPS] += 1
    context.totals[0] += mean_loss(context, k)
    context.totals[1] += 1
    if period > 0 and (done + k + 1) % period == 0:
        move_numbers(target.values, online.values, context.tau[0])
        pack(target)


@kernel
def run_updates(task, number):
    """Do the K updates of a packed task in order; the number, which workers pass, is not used."""
    control = flush_denormals()
    for k in range(unpack(task).context.params[NUM_UPDATES]):
        do_update(task, k)
    restore_denormals(control)


@kernel
def run_prioritized_updates(sampler, task):
    """Sample a batch, update the network and set the batch's priorities, once per update of a task.

    Every sample depends on the errors of the updates before.

    Args:
        sampler: PrioritizedSampler that fills the batch of the task.
        task: Packed Task.
    """
    context = unpack(task).context
    control = flush_denormals()
    for k in range(context.params[NUM_UPDATES]):
        sample_batch(sampler, k)
        do_update(task, k)
        update_batch_priorities(sampler, k, context.errors)
    restore_denormals(control)
