"""Updates on prioritized replay, where every sample depends on the errors of the update before."""

from __future__ import annotations

from briskrl.algos.dqn.kernels.td_update import NUM_UPDATES
from briskrl.algos.dqn.kernels.updates import do_update
from briskrl.compiler.jit import kernel
from briskrl.compiler.math import flush_denormals, restore_denormals
from briskrl.compiler.packed_args import unpack
from briskrl.memory.kernels.prioritized_sampling import sample_batch, update_batch_priorities


@kernel
def update_in_turn(sampler, task):
    """Sample a batch, update the network and set the batch's priorities, once per update of a task.

    Args:
        sampler: PrioritizedSampler that fills the batch of the task.
        task: Packed Task, see `run_updates`.
    """
    context = unpack(task).context
    control = flush_denormals()
    for k in range(context.params[NUM_UPDATES]):
        sample_batch(sampler, k)
        do_update(task, k)
        update_batch_priorities(sampler, k, context.errors)
    restore_denormals(control)
