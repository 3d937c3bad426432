"""The compiled loop over the envs of a batch, with NumPy's random numbers.

`state` has one row of 64-bit words per env: the four words of NumPy's PCG64 (128 bits of state and
128 of increment), counters, the return so far, and from STATE on the float64 state variables of the
environment. `params` holds the settings; from R_OWN on, those of the environment itself.
"""

from __future__ import annotations

from types import FunctionType

import numpy as np

from briskrl.compiler.jit import helper, inline_helper, kernel
from briskrl.envs.kernels.episode_log import record, tick

STATE_HIGH, STATE_LOW, INC_HIGH, INC_LOW, COUNTERS, RETURN, STATE = range(7)
STEPS = 2 * COUNTERS
"""Index in a row viewed as int32."""
ENDED = 4 * COUNTERS + 2
"""Index in a row viewed as int16."""

R_MAX_STEPS, R_NUM_ACTIONS, R_INVALID, R_OWN = range(4)
"""Indices in `params`: the time limit (0 for none), the number of actions, and the word of `state`
that is set to env + 1 if an env gets an invalid action."""

SAME_STEP, NEXT_STEP, DISABLED, RESET, LOOK = range(5)
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


@helper
def clear(f64, i32, i16, base):
    """Reset the counters for a new episode."""
    i32[base * 2 + STEPS] = 0
    i16[base * 4 + ENDED] = 0
    f64[base + RETURN] = 0.0


def step(
    params,
    state,
    log,
    actions,
    obs,
    reward,
    terminated,
    truncated,
    final_obs,
    low,
    high,
    lane,
    mode,
):
    """Step the envs low..high-1 in the given mode and write their transitions.

    ROW, OBS, `advance`, `begin` and `observe` belong to one environment; see `step_of`.
    """
    f64, i32, i16 = state.view(np.float64), state.view(np.int32), state.view(np.int16)
    shown, final = obs.reshape(obs.size), final_obs.reshape(final_obs.size)
    if mode < RESET:
        tick(log, lane)
    for i in range(low, high):
        base = i * ROW  # noqa: F821
        cause = 0
        if mode == LOOK:
            pass
        elif i16[base * 4 + ENDED] != 0:
            if mode == DISABLED:
                continue
            begin(state, f64, base)  # noqa: F821
            clear(f64, i32, i16, base)
            reward[i], terminated[i], truncated[i] = 0.0, False, False
        elif mode == RESET:
            continue
        elif actions[i] < 0 or actions[i] >= params[R_NUM_ACTIONS]:
            state[params[R_INVALID]] = i + 1
            continue
        else:
            gain, over = advance(params, f64, base + STATE, actions[i])  # noqa: F821
            steps = np.int64(i32[base * 2 + STEPS]) + 1
            i32[base * 2 + STEPS] = steps
            f64[base + RETURN] += gain
            # An episode that terminates in its last allowed step counts as terminated.
            if over:
                cause = TERMINATED
            elif steps >= params[R_MAX_STEPS] and params[R_MAX_STEPS] > 0:
                cause = TRUNCATED
            reward[i], terminated[i], truncated[i] = gain, over, cause == TRUNCATED
        if cause != 0:
            i16[base * 4 + ENDED] = 1
            total = f64[base + RETURN]
            record(log, lane, i, i32[base * 2 + STEPS], total, total, False, cause)
            if mode == SAME_STEP:
                observe(f64, base + STATE, final, i * OBS)  # noqa: F821
                begin(state, f64, base)  # noqa: F821
                clear(f64, i32, i16, base)
        observe(f64, base + STATE, shown, i * OBS)  # noqa: F821


def step_of(advance, begin, observe, *, num_state, num_obs):
    """The compiled `step` of an environment, made of its inlined functions.

    Args:
        advance: (params, f64, at, action) -> (reward, terminated); updates the state variables,
            which start at f64[at].
        begin: (state, f64, base); draws the initial state variables, which start at base + STATE.
        observe: (f64, at, shown, place); writes the observation, from shown[place] on.
        num_state: Number of state variables.
        num_obs: Size of an observation.
    """
    own = {
        "advance": advance,
        "begin": begin,
        "observe": observe,
        "ROW": STATE + num_state,
        "OBS": num_obs,
    }
    # Not a closure: Numba cannot cache a closure over a compiled function.
    bound = FunctionType(step.__code__, {**globals(), **own})
    bound.__module__ = advance.__module__
    # The cache key of the kernel.
    bound.__qualname__ = f"{advance.__module__}.step"
    return kernel(bound)
