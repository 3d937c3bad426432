"""The loop over updates whose every draw depends on the errors of the one before."""

from __future__ import annotations

from briskrl.algos.fused.lessons.kernels import UPDATES
from briskrl.algos.fused.values.kernels import do_update
from briskrl.fused.intrinsics import flush_denormals, restore_denormals
from briskrl.intrinsics import opened
from briskrl.jit import kernel
from briskrl.memory.source.kernels import draw_batch, feed_back


@kernel
def update_in_turn(source, held):
    """Draw, update and feed back, once per update of a task.

    Args:
        source: Where batches come from; they lie where the lesson reads them.
        held: The task, see `update_values`.
    """
    lesson = opened(held).lesson
    control = flush_denormals()
    for k in range(lesson.rules[UPDATES]):
        draw_batch(source, k)
        do_update(held, k)
        feed_back(source, k, lesson.errors)
    restore_denormals(control)
