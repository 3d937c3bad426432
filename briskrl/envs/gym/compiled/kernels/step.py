"""What compiled Gymnasium environments share: memory, counters and NumPy's random numbers.

`state` has one row of 64-bit words per env: the four words of NumPy's PCG64 (128 bits of state and
128 of increment), counters, the return so far, and from STATE on the float64 state variables of the
environment. `params` holds the settings; from R_OWN on, those of the environment itself.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from briskrl.compiler.jit import inline_helper, kernel
from briskrl.envs.kernels.episode_log import record

STATE_HIGH, STATE_LOW, INC_HIGH, INC_LOW, COUNTERS, RETURN, STATE = range(7)
STEPS = 2 * COUNTERS
"""Index in a row viewed as int32."""
ENDED = 4 * COUNTERS + 2
"""Index in a row viewed as int16."""

R_MAX_STEPS, R_NUM_ACTIONS, R_INVALID, R_OWN = range(4)
"""Indices in `params`: the time limit (0 for none), the number of actions, and the word of `state`
that is set to env + 1 if an env gets an invalid action."""

TERMINATED, TRUNCATED = 1, 2
"""Why an episode ends, as in the other backends."""

MULTIPLIER_HIGH = np.uint64(2549297995355413924)
MULTIPLIER_LOW = np.uint64(4865540595714422341)
_LOW_HALF = np.uint64(0xFFFFFFFF)
_U11, _U32, _U58, _U63, _U64 = (np.uint64(n) for n in (11, 32, 58, 63, 64))


@inline_helper
def high_word(a, b):
    """The upper 64 of the 128 bits of a product."""
    a_low, a_high = a & _LOW_HALF, a >> _U32
    b_low, b_high = b & _LOW_HALF, b >> _U32
    middle = a_high * b_low + ((a_low * b_low) >> _U32)
    other = a_low * b_high + (middle & _LOW_HALF)
    return a_high * b_high + (middle >> _U32) + (other >> _U32)


@inline_helper
def draw_word(state, base):
    """64 random bits from NumPy's PCG64 in the row at `base`, which advances."""
    high, low = state[base + STATE_HIGH], state[base + STATE_LOW]
    product = low * MULTIPLIER_LOW
    carried = high_word(low, MULTIPLIER_LOW) + high * MULTIPLIER_LOW + low * MULTIPLIER_HIGH
    low = product + state[base + INC_LOW]
    high = carried + state[base + INC_HIGH] + np.uint64(low < product)
    state[base + STATE_HIGH], state[base + STATE_LOW] = high, low
    mixed, turn = high ^ low, high >> _U58
    return (mixed >> turn) | (mixed << ((_U64 - turn) & _U63))


@inline_helper
def draw_uniform(state, base, low, high):
    """A float64 equal to NumPy's `Generator.uniform(low, high)`."""
    return low + (high - low) * (np.float64(draw_word(state, base) >> _U11) * 2.0**-53)


@kernel
def draw_uniforms(state, low, high, out):
    """Fill `out` with uniform numbers from the PCG64 in the first four words of `state`."""
    for k in range(len(out)):
        out[k] = draw_uniform(state, 0, low, high)


class Memory(NamedTuple):
    """The arrays of a batch; all but `params` are views of the same memory."""

    params: np.ndarray
    state: np.ndarray
    f64: np.ndarray
    i32: np.ndarray


@inline_helper
def open_memory(params, state):
    """The arrays of a batch."""
    return Memory(params, state, state.view(np.float64), state.view(np.int32))


@inline_helper
def clear_counters(m, base):
    """Reset the counters for a new episode."""
    m.i32[base * 2 + STEPS] = 0
    m.f64[base + RETURN] = 0.0


@inline_helper
def is_invalid(m, i, action):
    """Whether an action of env i is out of range; if so, reports it."""
    # One unsigned comparison covers negative actions; two signed ones take 2 ns more per step.
    if np.uint64(action) < np.uint64(m.params[R_NUM_ACTIONS]):
        return False
    m.state[m.params[R_INVALID]] = i + 1
    return True


@inline_helper
def end_step(m, base, reward, terminated):
    """Count a step; returns the reward, the cause of the end or 0, and `terminated`."""
    steps = np.int64(m.i32[base * 2 + STEPS]) + 1
    m.i32[base * 2 + STEPS] = steps
    m.f64[base + RETURN] += reward
    cause = 0
    # An episode that terminates in its last allowed step counts as terminated.
    if terminated:
        cause = TERMINATED
    elif steps >= m.params[R_MAX_STEPS] and m.params[R_MAX_STEPS] > 0:
        cause = TRUNCATED
    return reward, cause, terminated


@inline_helper
def record_episode(m, base, i, lane, log, cause):
    """Write the record of an ended episode."""
    total = m.f64[base + RETURN]
    record(log, lane, i, m.i32[base * 2 + STEPS], total, total, False, cause)


@inline_helper
def rebuild(m, base, i, lane):
    """Do nothing: no memory is derived from the state."""
