"""Compiled parts that all native families share: random draws and the episode log.

The log is one float64 array with rows of LOG_COLUMNS: a head row per lane (a lane is what one
thread steps), one row of running totals per env, then a ring of episode records per lane. Totals
are kept per env, so that their sums do not depend on how envs are spread over lanes.
"""

from __future__ import annotations

import numpy as np

from briskrl.jit import helper, inlined, kernel, sched_yield

GOLDEN = np.uint64(0x9E3779B97F4A7C15)
MIX_1 = np.uint64(0xBF58476D1CE4E5B9)
MIX_2 = np.uint64(0x94D049BB133111EB)
_U27, _U30, _U31, _U32 = np.uint64(27), np.uint64(30), np.uint64(31), np.uint64(32)

LOG_COLUMNS = 16
HEAD_TICK, HEAD_WRITTEN, HEAD_CAPACITY, HEAD_FIRST, HEAD_TOTALS = range(5)
REC_TICK, REC_ENV, REC_STEPS, REC_RETURN, REC_SCORE, REC_WON, REC_CAUSE, REC_EXTRA = range(8)
TOT_COUNT, TOT_STEPS, TOT_RETURN, TOT_SCORE = 0, 1, 4, 7
TOT_CAUSE = 9
"""Total of cause c is in column TOT_CAUSE + c; causes are 1 to 6."""


@inlined
def draw(words, at, n):
    """A number in 0..n-1 from the SplitMix64 state in words[at], which moves on."""
    state = words[at] + GOLDEN
    words[at] = state
    z = (state ^ (state >> _U30)) * MIX_1
    z = (z ^ (z >> _U27)) * MIX_2
    z = z ^ (z >> _U31)
    return np.int64(((z >> _U32) * np.uint64(n)) >> _U32)


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


@kernel
def look_for(flags, index, value, spins):
    """Look at a flag until it has a value, at most `spins` times, offering the core in between."""
    for _ in range(spins):
        if flags[index] == value:
            return
        sched_yield()
