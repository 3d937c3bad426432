"""One pass over a batch of environments, shared by threads.

The caller posts the arrays of a pass in a queue (see `parallel.kernels.queue`). Threads that are
awake take chunks of envs until none is left. Nothing is allocated.
"""

from __future__ import annotations

from numba import types
from numba.core import cgutils
from numba.extending import intrinsic

from briskrl.compiler.jit import helper
from briskrl.parallel.kernels.queue import (
    CACHE_LINE,
    EXTRA,
    finish_chunk,
    refill,
    take_chunk,
    wait_for_chunks,
)
from briskrl.parallel.kernels.spin_wait import spin

MODE, ARRAYS = EXTRA, CACHE_LINE
"""Indices into the queue of what all threads read: the mode and the addresses of the arrays."""


@intrinsic
def address_of(typing, array):
    """The address of an array's first element."""

    def generate(context, builder, signature, values):
        data = context.make_array(signature.args[0])(context, builder, values[0]).data
        return builder.ptrtoint(data, context.get_value_type(types.int64))

    return types.int64(array), generate


@intrinsic
def at_address(typing, like, address):
    """An array of the dtype and shape of `like` at another address."""

    def generate(context, builder, signature, values):
        return _moved(context, builder, signature.args[0], values[0], values[1])._getvalue()

    return like(like, types.int64), generate


@intrinsic
def flat_at_address(typing, like, address, size):
    """A flat array of `size` elements of the dtype of `like`, which is flat too, elsewhere."""

    def generate(context, builder, signature, values):
        array = _moved(context, builder, signature.args[0], values[0], values[1])
        array.shape = cgutils.pack_array(builder, [values[2]])
        array.nitems = values[2]
        return array._getvalue()

    return like(like, types.int64, types.int64), generate


def _moved(context, builder, kind, like, address):
    array = context.make_array(kind)(context, builder, like)
    array.data = builder.inttoptr(address, array.data.type)
    # It owns no memory, so it must not hold a reference to the owner of `like`.
    array.meminfo = array.meminfo.type(None)
    array.parent = array.parent.type(None)
    return array


@helper
def post_pass(queue, mode, actions, obs, reward, terminated, truncated, final_obs):
    """Post a pass over all chunks, on these arrays."""
    queue[MODE] = mode
    queue[ARRAYS] = address_of(actions)
    queue[ARRAYS + 1] = address_of(obs)
    queue[ARRAYS + 2] = address_of(reward)
    queue[ARRAYS + 3] = address_of(terminated)
    queue[ARRAYS + 4] = address_of(truncated)
    queue[ARRAYS + 5] = address_of(final_obs)
    refill(queue)


def parallel_step(
    params,
    state,
    log,
    queue,
    bounds,
    lane,
    mode,
    spins,
    actions,
    obs,
    reward,
    terminated,
    truncated,
    final_obs,
):
    """Take part in passes over all envs; `step` is bound to a family's kernel by `specialize`.

    Lane 0 posts one pass on the arrays it is given and returns when all chunks are done. Other
    lanes help with any posted pass, on the arrays of the caller, which have the dtypes and shapes
    of those they are given; they return after `spins` checks without work.

    Chunk c is the envs bounds[c]..bounds[c+1]-1; it uses the log and scratch space of lane c.
    """
    if lane == 0:
        post_pass(queue, mode, actions, obs, reward, terminated, truncated, final_obs)
    idle = 0
    while lane == 0 or idle < spins:
        chunk = take_chunk(queue, lane)
        if chunk >= 0:
            step(  # noqa: F821
                params,
                state,
                log,
                at_address(actions, queue[ARRAYS]),
                at_address(obs, queue[ARRAYS + 1]),
                at_address(reward, queue[ARRAYS + 2]),
                at_address(terminated, queue[ARRAYS + 3]),
                at_address(truncated, queue[ARRAYS + 4]),
                at_address(final_obs, queue[ARRAYS + 5]),
                bounds[chunk],
                bounds[chunk + 1],
                chunk,
                queue[MODE],
            )
            finish_chunk(queue)
            idle = 0
        elif lane == 0:
            wait_for_chunks(queue)
            return
        else:
            idle = spin(idle, spins)
