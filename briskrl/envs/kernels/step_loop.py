"""One pass over a batch of environments, shared by threads."""

from __future__ import annotations

from types import FunctionType

from numba import types
from numba.extending import intrinsic

from briskrl.compiler.atomics import atomic_load, atomic_store, fetch_add, usleep, yield_core
from briskrl.compiler.jit import helper, kernel

BOARD_LINE = 8
"""Numbers in a cache line: what different lanes write often is a line apart."""
BOARD_LANES, BOARD_CHUNKS, BOARD_PHASE, BOARD_ARRAYS = 0, 1, 2, 8
BOARD_DONE, BOARD_LANE = 16, 24
LANE_FIRST, LANE_END, LANE_NEXT = range(3)
PATIENCE, NAP_US = 2000, 50
"""Looks before the caller naps because a thread has lost its core, and how long a nap is."""


@intrinsic
def address_of(typing, array):
    """Where an array's first element is, as a number."""

    def generate(context, builder, signature, values):
        data = context.make_array(signature.args[0])(context, builder, values[0]).data
        return builder.ptrtoint(data, context.get_value_type(types.int64))

    return types.int64(array), generate


@intrinsic
def at_address(typing, like, address):
    """An array like the given one whose first element is elsewhere."""

    def generate(context, builder, signature, values):
        array = context.make_array(signature.args[0])(context, builder, values[0])
        array.data = builder.inttoptr(values[1], array.data.type)
        # It owns nothing: references to what owns the other array must not be counted for it.
        array.meminfo = array.meminfo.type(None)
        array.parent = array.parent.type(None)
        return array._getvalue()

    return like(like, types.int64), generate


@helper
def call_lanes(board, phase, actions, obs, reward, terminated, truncated, final_obs):
    """Offer a pass over all chunks, on these arrays."""
    board[BOARD_PHASE] = phase
    board[BOARD_ARRAYS] = address_of(actions)
    board[BOARD_ARRAYS + 1] = address_of(obs)
    board[BOARD_ARRAYS + 2] = address_of(reward)
    board[BOARD_ARRAYS + 3] = address_of(terminated)
    board[BOARD_ARRAYS + 4] = address_of(truncated)
    board[BOARD_ARRAYS + 5] = address_of(final_obs)
    atomic_store(board, BOARD_DONE, 0)
    for lane in range(board[BOARD_LANES]):
        at = BOARD_LANE + lane * BOARD_LINE
        atomic_store(board, at + LANE_NEXT, board[at + LANE_FIRST])


@helper
def take_chunk(board, lane):
    """The next chunk for a lane: of its own, then of the others'; -1 if all are taken.

    What is on the board may be read after a chunk has been taken and not before: until that chunk
    is done nobody calls again.
    """
    lanes = board[BOARD_LANES]
    for k in range(lanes):
        at = BOARD_LANE + (lane + k) % lanes * BOARD_LINE
        if atomic_load(board, at + LANE_NEXT) < board[at + LANE_END]:
            chunk = fetch_add(board, at + LANE_NEXT, 1)
            if chunk < board[at + LANE_END]:
                return chunk
    return -1


@helper
def end_chunk(board):
    """Tell that a chunk is done."""
    fetch_add(board, BOARD_DONE, 1)


@helper
def wait_for_lanes(board):
    """Return when every chunk is done; offers the core at first, then sleeps."""
    spins = 0
    while atomic_load(board, BOARD_DONE) < board[BOARD_CHUNKS]:
        if spins < PATIENCE:
            spins = PATIENCE if yield_core() else spins + 1
        else:
            usleep(NAP_US)


def share(
    rules,
    words,
    log,
    board,
    bounds,
    lane,
    phase,
    spins,
    actions,
    obs,
    reward,
    terminated,
    truncated,
    final_obs,
):
    """Do a lane's share of passes over all games; `step` is bound to a family's by `share_of`.

    Lane 0 calls for one pass on the arrays it is given and returns when all is done. The others
    take part in whatever is called for, on the arrays of the caller, which are like those they are
    given; they return when nothing was called for during `spins` looks.
    """
    if lane == 0:
        call_lanes(board, phase, actions, obs, reward, terminated, truncated, final_obs)
    idle = 0
    while lane == 0 or idle < spins:
        chunk = take_chunk(board, lane)
        if chunk >= 0:
            step(  # noqa: F821
                rules,
                words,
                log,
                at_address(actions, board[BOARD_ARRAYS]),
                at_address(obs, board[BOARD_ARRAYS + 1]),
                at_address(reward, board[BOARD_ARRAYS + 2]),
                at_address(terminated, board[BOARD_ARRAYS + 3]),
                at_address(truncated, board[BOARD_ARRAYS + 4]),
                at_address(final_obs, board[BOARD_ARRAYS + 5]),
                bounds[chunk],
                bounds[chunk + 1],
                chunk,
                board[BOARD_PHASE],
            )
            end_chunk(board)
            idle = 0
        elif lane == 0:
            wait_for_lanes(board)
            return
        else:
            idle = spins if yield_core() else idle + 1


def share_of(step):
    """The compiled `share` of the family whose compiled step this is."""
    # Not a closure: Numba would find no closure over a compiled function in its cache again.
    own = FunctionType(share.__code__, {**globals(), "step": step})
    own.__module__ = step.__module__
    # The name under which it is cached.
    own.__qualname__ = f"{step.__module__}.share"
    return kernel(own)
