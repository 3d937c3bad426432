"""The log of finished episodes, written and read by kernels.

Row `lane` of the log is the head of a lane; its ring of records begins at row HEAD_FIRST.
"""

from __future__ import annotations

import numpy as np

from briskrl.compiler.jit import helper, inline_helper, kernel

LOG_COLUMNS = 16
HEAD_TICK, HEAD_WRITTEN, HEAD_CAPACITY, HEAD_FIRST = range(4)
REC_TICK, REC_ENV, REC_STEPS, REC_RETURN, REC_SCORE, REC_WON, REC_CAUSE, REC_EXTRA = range(8)


@helper
def tick(log, lane):
    """Count one step of a lane; records of the same step have the same number."""
    log[lane, HEAD_TICK] += 1.0


@helper
def record(log, lane, env, steps, total, score, won, cause):
    """Append a finished episode to the ring of a lane.

    Returns the row of the record; columns from REC_EXTRA on belong to the family.
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
    return row


@inline_helper
def copy_episode(log, row, k, env, steps, returns, score, won, cause):
    """Copy one record into element k of the column arrays."""
    env[k] = np.int32(log[row, REC_ENV])
    steps[k] = np.int32(log[row, REC_STEPS])
    returns[k] = log[row, REC_RETURN]
    score[k] = log[row, REC_SCORE]
    won[k] = log[row, REC_WON] != 0.0
    cause[k] = np.uint8(log[row, REC_CAUSE])


@kernel
def copy_episodes(rows, env, steps, returns, score, won, cause):
    """Copy episode records (M, LOG_COLUMNS) into column arrays (M,)."""
    for k in range(len(rows)):
        copy_episode(rows, k, k, env, steps, returns, score, won, cause)


@helper
def count_pending(log, lanes):
    """Number of records in all lanes; -1 if reading lane after lane does not give their order.

    Records are ordered by step and then by env, and lanes by their envs. So the order is right if
    all records are of one step, or of one lane whose ring has not wrapped.
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
def drain_episodes(log, lanes, env, steps, returns, score, won, cause, first):
    """Move all records into column arrays, from element `first` on.

    Returns the number of records, or -1 if nothing was moved because the arrays are too short or
    the records are not in order.
    """
    count = count_pending(log, lanes)
    if count < 0 or first + count > len(env):
        return -1
    to = first
    for lane in range(lanes):
        start = np.int64(log[lane, HEAD_FIRST])
        for k in range(np.int64(log[lane, HEAD_WRITTEN])):
            copy_episode(log, start + k, to, env, steps, returns, score, won, cause)
            to += 1
        log[lane, HEAD_WRITTEN] = 0.0
    return count
