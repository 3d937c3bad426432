"""One pass over a batch of environments, shared by threads.

The threads meet in a mailbox, an array of int64 that compiled code reads and writes atomically: the
caller posts the arrays of a pass there, and threads take chunks of envs until none is left.
"""

from __future__ import annotations

from numba import types
from numba.extending import intrinsic

from briskrl.compiler.atomics import atomic_load, atomic_store, fetch_add, usleep, yield_core
from briskrl.compiler.jit import helper

CACHE_LINE = 8
"""Numbers in a cache line; values that different lanes write often are a line apart."""
MAILBOX_LANES, MAILBOX_CHUNKS, MAILBOX_MODE, MAILBOX_ARRAYS = 0, 1, 2, 8
MAILBOX_DONE, MAILBOX_LANE = 16, 24
LANE_FIRST, LANE_END, LANE_NEXT = range(3)
SPINS, NAP_US = 2000, 50
"""How often the caller checks before it naps, and the length of a nap.

It only gets that far if another thread has lost its core in the middle of a chunk.
"""


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
        array = context.make_array(signature.args[0])(context, builder, values[0])
        array.data = builder.inttoptr(values[1], array.data.type)
        # It owns no memory, so it must not hold a reference to the owner of `like`.
        array.meminfo = array.meminfo.type(None)
        array.parent = array.parent.type(None)
        return array._getvalue()

    return like(like, types.int64), generate


@helper
def post_pass(mailbox, mode, actions, obs, reward, terminated, truncated, final_obs):
    """Post a pass over all chunks, on these arrays."""
    mailbox[MAILBOX_MODE] = mode
    mailbox[MAILBOX_ARRAYS] = address_of(actions)
    mailbox[MAILBOX_ARRAYS + 1] = address_of(obs)
    mailbox[MAILBOX_ARRAYS + 2] = address_of(reward)
    mailbox[MAILBOX_ARRAYS + 3] = address_of(terminated)
    mailbox[MAILBOX_ARRAYS + 4] = address_of(truncated)
    mailbox[MAILBOX_ARRAYS + 5] = address_of(final_obs)
    atomic_store(mailbox, MAILBOX_DONE, 0)
    for lane in range(mailbox[MAILBOX_LANES]):
        at = MAILBOX_LANE + lane * CACHE_LINE
        atomic_store(mailbox, at + LANE_NEXT, mailbox[at + LANE_FIRST])


@helper
def take_chunk(mailbox, lane):
    """The next chunk for a lane: one of its own, then one of the others'; -1 if all are taken.

    Read the mailbox only after taking a chunk: until that chunk is done, no new pass is posted.
    """
    lanes = mailbox[MAILBOX_LANES]
    for k in range(lanes):
        at = MAILBOX_LANE + (lane + k) % lanes * CACHE_LINE
        if atomic_load(mailbox, at + LANE_NEXT) < mailbox[at + LANE_END]:
            chunk = fetch_add(mailbox, at + LANE_NEXT, 1)
            if chunk < mailbox[at + LANE_END]:
                return chunk
    return -1


@helper
def finish_chunk(mailbox):
    """Count a chunk as done."""
    fetch_add(mailbox, MAILBOX_DONE, 1)


@helper
def wait_for_lanes(mailbox):
    """Return when every chunk is done; yields the core at first, then sleeps."""
    spins = 0
    while atomic_load(mailbox, MAILBOX_DONE) < mailbox[MAILBOX_CHUNKS]:
        if spins < SPINS:
            spins = SPINS if yield_core() else spins + 1
        else:
            usleep(NAP_US)


def parallel_step(
    params,
    state,
    log,
    mailbox,
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
        post_pass(mailbox, mode, actions, obs, reward, terminated, truncated, final_obs)
    idle = 0
    while lane == 0 or idle < spins:
        chunk = take_chunk(mailbox, lane)
        if chunk >= 0:
            step(  # noqa: F821
                params,
                state,
                log,
                at_address(actions, mailbox[MAILBOX_ARRAYS]),
                at_address(obs, mailbox[MAILBOX_ARRAYS + 1]),
                at_address(reward, mailbox[MAILBOX_ARRAYS + 2]),
                at_address(terminated, mailbox[MAILBOX_ARRAYS + 3]),
                at_address(truncated, mailbox[MAILBOX_ARRAYS + 4]),
                at_address(final_obs, mailbox[MAILBOX_ARRAYS + 5]),
                bounds[chunk],
                bounds[chunk + 1],
                chunk,
                mailbox[MAILBOX_MODE],
            )
            finish_chunk(mailbox)
            idle = 0
        elif lane == 0:
            wait_for_lanes(mailbox)
            return
        else:
            idle = spins if yield_core() else idle + 1
