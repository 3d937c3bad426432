"""The loop over updates whose every draw depends on the errors of the one before."""

from __future__ import annotations

from briskrl.algos.dqn.kernels.td_update import UPDATES
from briskrl.algos.dqn.kernels.updates import do_update
from briskrl.compiler.jit import kernel
from briskrl.compiler.math import flush_denormals, restore_denormals
from briskrl.compiler.packed_args import unpack
from briskrl.memory.kernels.prioritized_sampling import draw_batch, feed_back


@kernel
def update_in_turn(source, held):
    """Draw, update and feed back, once per update of a task.

    Args:
        source: Where batches come from; they lie where the lesson reads them.
        held: The task, see `run_updates`.
    """
    context = unpack(held).context
    control = flush_denormals()
    for k in range(context.rules[UPDATES]):
        draw_batch(source, k)
        do_update(held, k)
        feed_back(source, k, context.errors)
    restore_denormals(control)
