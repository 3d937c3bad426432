"""Compiled parts that all native families share: random draws, the episode log, shared passes.

The log is one float64 array with rows of LOG_COLUMNS: a head row per lane (all envs, or one chunk
of them where threads share a pass), one row of running totals per env, then a ring of episode
records per lane. Totals are kept per env, so that their sums do not depend on how envs are spread.

The board, on which threads meet, is an int64 array: what the pass is about, how many chunks are
done, and per thread which chunks are its own and which of them comes next.
"""

from __future__ import annotations

from types import FunctionType

import numpy as np
from numba import types
from numba.extending import intrinsic

from briskrl.intrinsics import fetch_add, look, offer_core, publish
from briskrl.jit import helper, inlined, kernel, usleep

GOLDEN = np.uint64(0x9E3779B97F4A7C15)
MIX_1 = np.uint64(0xBF58476D1CE4E5B9)
MIX_2 = np.uint64(0x94D049BB133111EB)
_U11, _U27, _U30, _U31, _U32 = (np.uint64(n) for n in (11, 27, 30, 31, 32))

LOG_COLUMNS = 16
HEAD_TICK, HEAD_WRITTEN, HEAD_CAPACITY, HEAD_FIRST, HEAD_TOTALS = range(5)
REC_TICK, REC_ENV, REC_STEPS, REC_RETURN, REC_SCORE, REC_WON, REC_CAUSE, REC_EXTRA = range(8)
TOT_COUNT, TOT_STEPS, TOT_RETURN, TOT_SCORE = 0, 1, 4, 7
TOT_CAUSE = 9
"""Total of cause c is in column TOT_CAUSE + c; causes are 1 to 6."""

BOARD_LINE = 8
"""Numbers in a cache line: what different lanes write often is a line apart."""
BOARD_LANES, BOARD_CHUNKS, BOARD_PHASE, BOARD_ARRAYS = 0, 1, 2, 8
BOARD_DONE, BOARD_LANE = 16, 24
LANE_FIRST, LANE_END, LANE_NEXT = range(3)
PATIENCE, NAP_US = 2000, 50
"""Looks before the caller naps because a thread has lost its core, and how long a nap is."""


@inlined
def draw_word(words, at):
    """64 random bits from the SplitMix64 state in words[at], which moves on."""
    state = words[at] + GOLDEN
    words[at] = state
    z = (state ^ (state >> _U30)) * MIX_1
    z = (z ^ (z >> _U27)) * MIX_2
    return z ^ (z >> _U31)


@inlined
def draw(words, at, n):
    """A number in 0..n-1 from the random state in words[at], which moves on."""
    return np.int64(((draw_word(words, at) >> _U32) * np.uint64(n)) >> _U32)


@inlined
def draw_real(words, at):
    """A float64 in 0..1, below 1, from the random state in words[at], which moves on."""
    return np.float64(draw_word(words, at) >> _U11) * 2.0**-53


@helper
def tick(log, lane):
    """Count one step of a lane; records of the same step carry the same number."""
    log[lane, HEAD_TICK] += 1.0


@helper
def record(log, lane, env, steps, total, score, won, cause):
    """Append a finished episode to the lane's ring and add it to the env's totals.

    Returns the row of the record, for a family's own columns from REC_EXTRA on.
    """
    written = log[lane, HEAD_WRITTEN]
    capacity = np.int64(log[lane, HEAD_CAPACITY])
    row = np.int64(log[lane, HEAD_FIRST]) + np.int64(written) % capacity
    log[lane, HEAD_WRITTEN] = written + 1.0
    log[row, REC_TICK] = log[lane, HEAD_TICK]
    log[row, REC_ENV] = env
    log[row, REC_STEPS] = steps
    log[row, REC_RETURN] = total
    log[row, REC_SCORE] = score
    log[row, REC_WON] = won
    log[row, REC_CAUSE] = cause
    totals = np.int64(log[lane, HEAD_TOTALS]) + env
    first = log[totals, TOT_COUNT] == 0.0
    log[totals, TOT_COUNT] += 1.0
    log[totals, TOT_CAUSE + cause] += 1.0
    for column in (REC_STEPS, REC_RETURN, REC_SCORE):
        at, number = TOT_STEPS + 3 * (column - REC_STEPS), log[row, column]
        log[totals, at] += number
        log[totals, at + 1] += number * number
        if first or number > log[totals, at + 2]:
            log[totals, at + 2] = number
    return row


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
    publish(board, BOARD_DONE, 0)
    for lane in range(board[BOARD_LANES]):
        at = BOARD_LANE + lane * BOARD_LINE
        publish(board, at + LANE_NEXT, board[at + LANE_FIRST])


@helper
def take_chunk(board, lane):
    """The next chunk for a lane: of its own, then of the others'; -1 if all are taken.

    What is on the board may be read after a chunk has been taken and not before: until that chunk
    is done nobody calls again.
    """
    lanes = board[BOARD_LANES]
    for k in range(lanes):
        at = BOARD_LANE + (lane + k) % lanes * BOARD_LINE
        if look(board, at + LANE_NEXT) < board[at + LANE_END]:
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
    while look(board, BOARD_DONE) < board[BOARD_CHUNKS]:
        if spins < PATIENCE:
            spins = PATIENCE if offer_core() else spins + 1
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
            idle = spins if offer_core() else idle + 1


def share_of(step):
    """The compiled `share` of the family whose compiled step this is."""
    # Not a closure: Numba would find no closure over a compiled function in its cache again.
    own = FunctionType(share.__code__, {**globals(), "step": step})
    own.__module__ = step.__module__
    # The name under which it is cached.
    own.__qualname__ = f"{step.__module__}.share"
    return kernel(own)


@inlined
def tell_episode(log, row, k, env, steps, ret, score, won, cause):
    """Copy the columns of one record into element k of arrays of their own."""
    env[k] = np.int32(log[row, REC_ENV])
    steps[k] = np.int32(log[row, REC_STEPS])
    ret[k] = log[row, REC_RETURN]
    score[k] = log[row, REC_SCORE]
    won[k] = log[row, REC_WON] != 0.0
    cause[k] = np.uint8(log[row, REC_CAUSE])


@kernel
def tell_episodes(rows, env, steps, ret, score, won, cause):
    """Copy the columns of episode records (M, LOG_COLUMNS) into arrays (M,) of their own."""
    for k in range(len(rows)):
        tell_episode(rows, k, k, env, steps, ret, score, won, cause)


@helper
def count_pending(log, lanes):
    """How many records wait in all lanes; -1 if one after the other they are not in order.

    Lanes come in the order of their envs. So they are in order if they are of one step, or of one
    lane whose ring has not gone round.
    """
    count, tick = 0, -1.0
    for lane in range(lanes):
        written, first = np.int64(log[lane, HEAD_WRITTEN]), np.int64(log[lane, HEAD_FIRST])
        if written > np.int64(log[lane, HEAD_CAPACITY]):
            return -1
        if written > 0 and lanes > 1:
            tick = log[first, REC_TICK] if tick < 0 else tick
            if log[first, REC_TICK] != tick or log[first + written - 1, REC_TICK] != tick:
                return -1
        count += written
    return count


@kernel
def hand_over(log, lanes, env, steps, ret, score, won, cause, first):
    """Move what lanes have recorded into arrays, from element `first` on.

    Returns how many records there were, or -1 if nothing was moved because the arrays are too short
    or the records are not in order.
    """
    count = count_pending(log, lanes)
    if count < 0 or first + count > len(env):
        return -1
    to = first
    for lane in range(lanes):
        start = np.int64(log[lane, HEAD_FIRST])
        for k in range(np.int64(log[lane, HEAD_WRITTEN])):
            tell_episode(log, start + k, to, env, steps, ret, score, won, cause)
            to += 1
        log[lane, HEAD_WRITTEN] = 0.0
    return count
