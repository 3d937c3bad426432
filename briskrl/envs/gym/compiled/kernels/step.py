"""The compiled loop over the envs of a batch, and NumPy's random numbers inside it.

An env is one row of 64-bit words: the four words of NumPy's PCG64 (128 bits of state and 128 of
increment), its counters, the return so far, and from STATE on the float64 numbers that the
environment itself keeps. `rules` holds the settings, the environment's own from R_OWN on.
"""

from __future__ import annotations

from types import FunctionType

import numpy as np

from briskrl.compiler.jit import helper, inline_helper, kernel
from briskrl.envs.kernels.episode_log import record, tick

STATE_HIGH, STATE_LOW, INC_HIGH, INC_LOW, COUNTERS, RETURN, STATE = range(7)
STEPS = 2 * COUNTERS
"""Place in a row seen as int32."""
ENDED = 4 * COUNTERS + 2
"""Place in a row seen as int16."""

R_MAX_STEPS, R_NUM_ACTIONS, R_WRONG, R_OWN = range(4)
"""Places in `rules`: the time limit (0 for none), the actions, and which word tells that an env was
given none of these: its number plus one."""

SAME_STEP, NEXT_STEP, DISABLED, RESET, LOOK = range(5)
TERMINATED, TRUNCATED = 1, 2
"""Why an episode ends, as in the records of the other backends."""

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
def draw_word(words, base):
    """64 random bits of NumPy's PCG64 in the row at `base`, which moves on."""
    high, low = words[base + STATE_HIGH], words[base + STATE_LOW]
    product = low * MULTIPLIER_LOW
    carried = high_word(low, MULTIPLIER_LOW) + high * MULTIPLIER_LOW + low * MULTIPLIER_HIGH
    low = product + words[base + INC_LOW]
    high = carried + words[base + INC_HIGH] + np.uint64(low < product)
    words[base + STATE_HIGH], words[base + STATE_LOW] = high, low
    mixed, turn = high ^ low, high >> _U58
    return (mixed >> turn) | (mixed << ((_U64 - turn) & _U63))


@inline_helper
def draw_uniform(words, base, low, high):
    """A float64 as NumPy's `Generator.uniform(low, high)` gives it."""
    return low + (high - low) * (np.float64(draw_word(words, base) >> _U11) * 2.0**-53)


@kernel
def draw_uniforms(words, low, high, out):
    """Fill `out` from the PCG64 in the first words."""
    for k in range(len(out)):
        out[k] = draw_uniform(words, 0, low, high)


@helper
def clear(f64, i32, i16, base):
    """Set the counters of a new episode."""
    i32[base * 2 + STEPS] = 0
    i16[base * 4 + ENDED] = 0
    f64[base + RETURN] = 0.0


def step(
    rules,
    words,
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
    phase,
):
    """Advance the envs low..high-1 as `phase` says and write what they show.

    ROW, SEEN, `advance`, `begin` and `observe` are an environment's own; see `step_of`.
    """
    f64, i32, i16 = words.view(np.float64), words.view(np.int32), words.view(np.int16)
    shown, final = obs.reshape(obs.size), final_obs.reshape(final_obs.size)
    if phase < RESET:
        tick(log, lane)
    for i in range(low, high):
        base = i * ROW  # noqa: F821
        cause = 0
        if phase == LOOK:
            pass
        elif i16[base * 4 + ENDED] != 0:
            if phase == DISABLED:
                continue
            begin(words, f64, base)  # noqa: F821
            clear(f64, i32, i16, base)
            reward[i], terminated[i], truncated[i] = 0.0, False, False
        elif phase == RESET:
            continue
        elif actions[i] < 0 or actions[i] >= rules[R_NUM_ACTIONS]:
            words[rules[R_WRONG]] = i + 1
            continue
        else:
            gain, over = advance(rules, f64, base + STATE, actions[i])  # noqa: F821
            steps = np.int64(i32[base * 2 + STEPS]) + 1
            i32[base * 2 + STEPS] = steps
            f64[base + RETURN] += gain
            # An episode that ends by itself in its last allowed step has ended by itself.
            if over:
                cause = TERMINATED
            elif steps >= rules[R_MAX_STEPS] and rules[R_MAX_STEPS] > 0:
                cause = TRUNCATED
            reward[i], terminated[i], truncated[i] = gain, over, cause == TRUNCATED
        if cause != 0:
            i16[base * 4 + ENDED] = 1
            total = f64[base + RETURN]
            record(log, lane, i, i32[base * 2 + STEPS], total, total, False, cause)
            if phase == SAME_STEP:
                observe(f64, base + STATE, final, i * SEEN)  # noqa: F821
                begin(words, f64, base)  # noqa: F821
                clear(f64, i32, i16, base)
        observe(f64, base + STATE, shown, i * SEEN)  # noqa: F821


def step_of(advance, begin, observe, *, num_state, num_seen):
    """The compiled `step` of an environment, from its own inlined parts.

    Args:
        advance: (rules, f64, at, action) -> reward, whether the episode ended by itself; moves the
            numbers that begin at f64[at].
        begin: (words, f64, base); draws the numbers of a new episode, which begin at base + STATE.
        observe: (f64, at, shown, place); writes what is seen of them, from shown[place] on.
        num_state: How many float64 numbers an env keeps.
        num_seen: How many an observation has.
    """
    own = {
        "advance": advance,
        "begin": begin,
        "observe": observe,
        "ROW": STATE + num_state,
        "SEEN": num_seen,
    }
    # Not a closure: Numba would find no closure over a compiled function in its cache again.
    bound = FunctionType(step.__code__, {**globals(), **own})
    bound.__module__ = advance.__module__
    # The name under which it is cached.
    bound.__qualname__ = f"{advance.__module__}.step"
    return kernel(bound)
