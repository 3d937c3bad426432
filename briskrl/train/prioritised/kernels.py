"""The loop over updates whose every draw depends on the errors of the one before."""

from __future__ import annotations

from briskrl.algos.fused.values.kernels import UPDATES, do_update
from briskrl.fused.intrinsics import flush_denormals, restore_denormals
from briskrl.jit import kernel
from briskrl.memory.source.kernels import draw_batch, feed_back


@kernel
def update_in_turn(source, lesson, replica, rooms):
    """Draw, update and feed back, once per update of a lesson.

    Args:
        source: Where batches come from; they lie where the lesson reads them.
        lesson: What to learn, see `update_values`, as for the next two.
        replica: The same for a partner.
        rooms: Where to compute.
    """
    control = flush_denormals()
    for k in range(lesson.rules[UPDATES]):
        draw_batch(source, k)
        do_update(lesson, replica, rooms, k)
        feed_back(source, k, lesson.errors)
    restore_denormals(control)
