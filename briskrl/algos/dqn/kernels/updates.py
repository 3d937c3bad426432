"""All Q-network updates that are due, in one call."""

from __future__ import annotations

from typing import Any, NamedTuple

from briskrl.algos.dqn.kernels.paired_threads import (
    ROUND,
    STEPS,
    own_workspace,
    paired_gradient,
    try_pair,
    update_cost_model,
)
from briskrl.algos.dqn.kernels.td_update import (
    BEGUN,
    DONE,
    DOUBLE,
    PERIOD,
    PRECOMPUTED,
    PREFETCHED,
    UPDATES,
    WHOLE,
    apply_parts,
    compute_targets,
    half_grad,
    mean_loss,
    rows_grad,
    target_forward,
    use_noise,
)
from briskrl.compiler.atomics import cycles
from briskrl.compiler.jit import helper, kernel
from briskrl.compiler.math import flush_denormals, restore_denormals
from briskrl.compiler.packed_args import unpack
from briskrl.fused.kernels.packing import copy_numbers, pack
from briskrl.fused.kernels.structs import TILE_ROWS


class Task(NamedTuple):
    """Updates and everything that doing them needs."""

    context: Any
    replica: Any
    """The lesson with the partner's network and optimizer."""
    works: Any
    """Where to compute: a Workspace for whole batches, and where some are split, those of
    `own_workspace` and `helper_workspace`."""
    spare: Any
    """A Work for who does something else meanwhile."""


@kernel
def precompute_targets(task, updates):
    """Do what needs the target net alone, beforehand, for so many updates of a lesson.

    Args:
        task: Held; nobody may be at its lesson, nor change the target net.
        updates: How many of its updates are to come before the target net is refreshed.
    """
    context, _, _, work = unpack(task)
    control = flush_denormals()
    size = context.batch.obs.shape[1]
    for k in range(updates):
        for first in range(0, size, TILE_ROWS):
            rows = min(TILE_ROWS, size - first)
            if context.rules[DOUBLE] != 0:
                target_forward(context, work, k, first, rows)
            else:
                compute_targets(context, work, k, first, rows)
    context.rules[PRECOMPUTED] = updates
    restore_denormals(control)


@helper
def learn(held, k):
    """Compute update k's gradient, as a whole or in two halves, with a partner if there is one.

    Who computes the halves makes no difference to the result.

    Returns:
        Where its parts are, in which set of them, and whether a partner took part.
    """
    context, replica, works, _ = unpack(held)
    board, size = context.board, context.batch.obs.shape[1]
    splits = len(works) > 1 and k >= context.rules[WHOLE]
    if splits and try_pair(context, replica):
        return context.parts, paired_gradient(context, works, k), True
    if size <= TILE_ROWS or not splits:
        rows_grad(context, works[0], k, 0, size, size // 2 if splits else 0)
        return context.whole, 0, False
    side = (board[ROUND] + 1) % 2
    for half in range(2):
        half_grad(context, works[own_workspace(side, half)], k, half)
    return context.parts, side, False


@helper
def do_update(held, k):
    """Do update k of a task, which is held: taken apart, it would fill the registers and more."""
    context = unpack(held).context
    begin = cycles()
    use_noise(context.online, context.noise[k, 0])
    use_noise(context.target, context.noise[k, 1])
    parts, which, together = learn(held, k)
    take_step(context, parts, which, k)
    update_cost_model(context.board, together, cycles() - begin)


@helper
def take_step(context, parts, which, k):
    """Do what is left of update k once its gradient is known."""
    online, target = context.online, context.target
    done, period = context.rules[DONE], context.rules[PERIOD]
    apply_parts(context, parts, which)
    context.board[STEPS] += 1
    context.totals[0] += mean_loss(context, k)
    context.totals[1] += 1
    if period > 0 and (done + k + 1) % period == 0:
        copy_numbers(target.values, online.values)
        pack(target)


@kernel
def run_updates(held, number):
    """Do the K updates of a task, which is held, in order.

    With a number other than 0 only begin with them: compute the first gradient, which is used if
    they were announced under that number when they are done. Nothing else changes until then.
    """
    context = unpack(held).context
    rules = context.rules
    control = flush_denormals()
    if number > 0:
        learn(held, 0)
        rules[BEGUN] = number
    else:
        begun = 0 < rules[PREFETCHED] == rules[BEGUN]
        for k in range(rules[UPDATES]):
            if k == 0 and begun:
                take_step(context, context.whole, 0, k)
            else:
                do_update(held, k)
    restore_denormals(control)
